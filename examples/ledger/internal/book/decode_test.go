package book_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

var goodMessages = []string{
	`{"op":"open","account":"client:42:account:7"}`,
	`{"op":"post","postings":[{"account":"Assets:Cash","amount":"-3.50","commodity":"EUR"},{"account":"Expenses:Food","amount":"3.50","commodity":"EUR"}]}`,
	`{"op":"post","expect":[{"account":"/","balance":"0","scope":"subtree"}]}`,
	`{"op":"deposit","account":"a","amount":"12.50","commodity":"EUR"}`,
	`{"op":"withdraw","account":"a","amount":"12.50","commodity":"EUR","reject":true}`,
	`{"op":"transfer","from":"a","to":"b","amount":"1"}`,
	`{"op":"convert","from":"a","to":"b","amount":"100","commodity":"EUR","gets":{"amount":"108.70","commodity":"USD"}}`,
	`{"op":"convert","from":"a","to":"a","amount":"100","commodity":"EUR","gets":{"amount":"108.70","commodity":"USD"}}`,
	`{"op":"buying_power","client":"client:42"}`,
	`{"op":"credit_check","client":"client:42","at_least":{"amount":"500","commodity":"EUR"}}`,
	`{"op":"close_client","client":"client:42","id":"x","note":"bye"}`,
	`{"op":"deposit","account":"a:b","amount":"1","sequence":"a/b=17"}`,
	`{"op":"open","account":"\ud83d\ude00:\\ud800 \u00e9:é\\"}`,
	`{"op":"transfer","from":"a:b:1","to":"a:c:1","amount":"1","sequence":"a/b=100000000000000, a%2C%20/c=1;epoch=2;end, /=2"}`,
	`{"op":"end_of_day","expect":[{"account":"a:b","balance":"-1.5","commodity":"EUR","scope":"own","tolerance":"0.10"}]}`,
}

var badMessages = map[string]string{
	``:                               "empty",
	`[]`:                             "a message is a JSON object",
	`"open"`:                         "a message is a JSON object",
	`{"op":"open"`:                   "not JSON",
	`{"op":"open","account":"a"} {}`: "more text after the message",
	`{"account":"a"}`:                `"op" is missing`,
	`{"op":"steal","account":"a"}`:   `op "steal" is not known: use one of open, post`,
	`{"op":"open"}`:                  `open needs "account"`,
	`{"op":"open","account":""}`:     "empty: write a path",
	`{"op":"open","account":"/"}`:    `open needs "account"`,
	`{"op":"open","account":"a","Account":"b"}`:                                  `unknown field "Account"`,
	`{"op":"open","account":"a","account":"b"}`:                                  `field "account" is given twice`,
	`{"op":"open","account":null}`:                                               `field "account" is null`,
	`{"op":"open","account":"a","amount":"1"}`:                                   `open does not take "amount"`,
	`{"op":"open","account":"a","commodity":""}`:                                 `open does not take "commodity"`,
	`{"op":"open","account":"a","postings":[]}`:                                  `open does not take "postings"`,
	`{"op":"deposit","account":"a","amount":12.5}`:                               "write it in quotes",
	`{"op":"deposit","account":"a","amount":"1e3"}`:                              "is not a decimal number",
	`{"op":"deposit","account":"a","amount":"0"}`:                                "amount must be more than 0",
	`{"op":"deposit","account":"a","amount":"-1"}`:                               "amount must be more than 0",
	`{"op":"deposit","account":"a","amount":"` + strings.Repeat("9", 101) + `"}`: "longer than 100 characters",
	`{"op":"deposit","account":"a","amount":"1","commodity":"E\nR"}`:             "control character",
	`{"op":"deposit","account":"a","amount":"1","gets":{"amount":"1"}}`:          `deposit does not take "gets"`,
	`{"op":"transfer","from":"a","to":"a","amount":"1"}`:                         "from and to are the same account",
	`{"op":"convert","from":"a","to":"b","amount":"1","gets":{}}`:                `"amount" is missing in "gets"`,
	`{"op":"convert","from":"a","to":"b","amount":"1","gets":{"amount":"0"}}`:    "gets must be more than 0",
	`{"op":"credit_check","client":"a","at_least":{"amount":"-1"}}`:              "at_least must be more than 0",
	`{"op":"post"}`: `post needs "postings"`,
	`{"op":"post","postings":[{"account":"a"}]}`:                                   `"amount" is missing in "postings"`,
	`{"op":"post","postings":[{"account":"/","amount":"1"}]}`:                      "posting 1: the whole book is no account",
	`{"op":"post","postings":{"account":"a","amount":"1"}}`:                        "cannot unmarshal object",
	`{"op":"post","postings":[{"account":"a","amount":"1","balance":"1"}]}`:        `unknown field "balance"`,
	`{"op":"end_of_day","sequence":""}`:                                            "no '=': write STREAM=NUMBER",
	`{"op":"end_of_day","sequence":"17"}`:                                          "no '=': write STREAM=NUMBER",
	`{"op":"end_of_day","sequence":"a=0"}`:                                         "number is not from 1 to",
	`{"op":"end_of_day","sequence":"a=1, a=2"}`:                                    "two positions on one stream",
	`{"op":"end_of_day","sequence":"input/1/a=1"}`:                                 "for the ledger's own numbers",
	`{"op":"end_of_day","sequence":{"a":1}}`:                                       `unknown field "a"`,
	`{"op":"post","expect":[{"account":"a"}]}`:                                     `"balance" is missing in "expect"`,
	`{"op":"post","expect":[{"account":"/","balance":"1"}]}`:                       `use scope "subtree"`,
	`{"op":"post","expect":[{"account":"a","balance":"1","scope":"all"}]}`:         `scope "all" is not known`,
	`{"op":"post","expect":[{"account":"a","balance":"1","scope":""}]}`:            `scope "" is not known`,
	`{"op":"post","expect":[{"account":"a","balance":"1","tolerance":"-1"}]}`:      "must not be negative",
	`{"op":"post","reject":true,"expect":[{"account":"a","balance":"1"}]}`:         "exclude each other",
	`{"op":"post","postings":` + strings.Repeat("[", 1e6):                          "nested too deeply",
	strings.Repeat(`{"gets":`, 1e5):                                                "nested too deeply",
	"{\"op\":\"open\",\"account\":\"Caf\xe9\"}":                                    `field "account": not UTF-8`,
	"{\"op\":\"post\",\"note\":\"\xff\"}":                                          `field "note": not UTF-8`,
	"{\"op\":\"post\",\"note\":\"a\x00\"}":                                         `field "note": has a NUL`,
	"{\"op\":\"post\",\"note\":\"a\\u0000\"}":                                      `field "note": has a NUL`,
	"{\"op\":\"post\",\"n\xc3\":\"a\"}":                                            "not UTF-8",
	"{\"op\":\"post\"\xff}":                                                        "not UTF-8",
	"\xff\xfe{\x00":                                                                "not UTF-8",
	`{"op":"open","account":"A\ud800"}`:                                            `field "account": has half of a surrogate pair`,
	`{"op":"open","account":"A\udc00\ud800"}`:                                      `field "account": has half of a surrogate pair`,
	`{"op":"open","account":"A\ud800\u0041"}`:                                      `field "account": has half of a surrogate pair`,
	`{"op":"open","account":"A\ud800\\udc00"}`:                                     `field "account": has half of a surrogate pair`,
	`{"op":"post","postings":[{"account":"A","amount":"1","commodity":"\uDFFF"}]}`: `field "commodity": has half of a surrogate pair`,
	"{\"op\":\"post\",\"sequence\":\"M\xfcller=1\"}":                               `field "sequence": not UTF-8`,
	`{"op":"post","sequence":"M%FCller=1"}`:                                        "not UTF-8",
	`{"op":"post","sequence":"M%0A=1"}`:                                            "control character",
	`{"op":"post","id":"\ud800"}`:                                                  `field "id": has half of a surrogate pair`,
	`{"op":"end_of_day","id":"a\n"}`:                                               "id \"a\\n\": has a control character",
	`{"op":"end_of_day","id":"` + strings.Repeat("x", 201) + `"}`:                  "longer than 200 characters",
	`{"\u006fp":"end_of_day","op":"end_of_day"}`:                                   `field "op" is given twice`,
	`{"op":"end_of_day","id":""}`:                                                  `"id" is empty: give each message an id of its own`,
	`{"op":"end_of_day","client":"a"}`:                                             `end_of_day does not take "client"`,
}

func TestDecode(t *testing.T) {
	for _, text := range goodMessages {
		m, err := book.Decode([]byte(text))
		require.NoError(t, err, text)
		again, err := json.Marshal(m)
		require.NoError(t, err)
		assert.JSONEq(t, text, string(again))
	}
	for text, problem := range badMessages {
		_, err := book.Decode([]byte(text))
		assert.ErrorContains(t, err, problem, text)
	}
}

// Whatever is decoded can be written and decoded again to the same.
func FuzzDecode(f *testing.F) {
	for _, text := range goodMessages {
		f.Add([]byte(text))
	}
	for text := range badMessages {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := book.Decode(text)
		if err != nil {
			return
		}
		first, err := json.Marshal(m)
		require.NoError(t, err)
		again, err := book.Decode(first)
		require.NoError(t, err)
		second, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))
	})
}

func FuzzParseAmount(f *testing.F) {
	for _, text := range []string{"0", "-12.50", "1e9", "1,000", "", "-", ".5", "5.", strings.Repeat("9", 100)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := book.ParseAmount(text)
		if err != nil {
			return
		}
		again, err := book.ParseAmount(a.String())
		require.NoError(t, err)
		require.True(t, a.Equal(again.Decimal))
	})
}

// A message that travels as an event is the same, but for its numbers, which
// travel beside it.
func TestPayload(t *testing.T) {
	for _, text := range goodMessages {
		m, err := book.Decode([]byte(text))
		require.NoError(t, err, text)
		payload, err := m.Payload()
		require.NoError(t, err)
		again, err := book.ParsePayload(payload)
		require.NoError(t, err, text)
		m.Sequence = nil
		assert.Equal(t, m, again)
		strict, err := book.Decode(payload)
		require.NoError(t, err, "a payload is a message too")
		assert.Equal(t, m, strict)
	}
	_, err := book.ParsePayload([]byte("{"))
	require.Error(t, err)
}

// An answer is told again as it was; one that is too long is told without sums.
func TestAnswers(t *testing.T) {
	amount, err := book.ParseAmount("2.50")
	require.NoError(t, err)
	sums := book.Reply{Totals: []book.Money{{Amount: amount, Commodity: "EUR"}}}
	for _, a := range []book.Answer{
		{}, {Reply: sums}, {Rejection: &book.Rejection{Reason: book.NoCover, Detail: "none"}},
	} {
		text, err := a.Encode(1000)
		require.NoError(t, err)
		again, err := book.DecodeAnswer(text)
		require.NoError(t, err)
		assert.Equal(t, a, again)
		assert.Equal(t, a.Rejection != nil, again.Err() != nil)
	}
	text, err := book.Answer{Reply: sums}.Encode(20)
	require.NoError(t, err)
	again, err := book.DecodeAnswer(text)
	require.NoError(t, err)
	assert.Equal(t, book.Answer{Reply: book.Reply{Cut: true}}, again)
}
