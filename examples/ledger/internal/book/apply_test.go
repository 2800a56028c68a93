package book_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/lockkeys"
)

// applied runs one message after the other on a book, and returns the results.
type applied struct {
	t      *testing.T
	tables *store.Tables
}

func (a *applied) message(text string) (book.Reply, error) {
	a.t.Helper()
	m, err := book.Decode([]byte(text))
	require.NoError(a.t, err, text)
	tx := book.Begin(context.Background(), a.tables)
	reply, err := book.Apply(tx, m)
	if err == nil {
		a.tables.Apply(tx.Changes())
	}
	return reply, err
}

// Each case is a book's whole life; what a message must answer stands behind it.
func TestApply(t *testing.T) {
	type step struct{ message, answer string }
	const fine = ""
	for name, steps := range map[string][]step{
		"deposit and withdraw": {
			{`{"op":"deposit","account":"c:1","amount":"5"}`, "no such account: c:1 was never opened"},
			{`{"op":"open","account":"c:1"}`, fine},
			{`{"op":"open","account":"c:1"}`, "account exists: c:1"},
			{`{"op":"deposit","account":"c:1","amount":"5","commodity":"EUR"}`, fine},
			{`{"op":"withdraw","account":"c:1","amount":"5","commodity":"USD"}`, "no cover: c:1 has 0 USD, of which withdraw cannot take 5 USD"},
			{`{"op":"withdraw","account":"c:1","amount":"5.01","commodity":"EUR"}`, "no cover: c:1 has 5 EUR, of which withdraw cannot take 5.01 EUR"},
			{`{"op":"withdraw","account":"c:1","amount":"5","commodity":"EUR","expect":[{"account":"c:1","balance":"0","commodity":"EUR"}]}`, fine},
		},
		"transfer and convert": {
			{`{"op":"open","account":"c:1"}`, fine},
			{`{"op":"open","account":"c:2"}`, fine},
			{`{"op":"deposit","account":"c:1","amount":"10","commodity":"EUR"}`, fine},
			{`{"op":"transfer","from":"c:1","to":"c:2","amount":"11","commodity":"EUR"}`, "no cover: c:1 has 10 EUR, of which transfer cannot take 11 EUR"},
			{`{"op":"transfer","from":"c:1","to":"c:2","amount":"4","commodity":"EUR"}`, fine},
			{`{"op":"transfer","from":"c:1","to":"c:3","amount":"4","commodity":"EUR"}`, "no such account: c:3 was never opened"},
			{`{"op":"convert","from":"c:1","to":"c:2","amount":"6","commodity":"EUR","gets":{"amount":"6.6","commodity":"USD"}}`, fine},
			{`{"op":"convert","from":"c:2","to":"c:2","amount":"7","commodity":"USD","gets":{"amount":"6.5","commodity":"EUR"}}`, "no cover: c:2 has 6.6 USD, of which convert cannot take 7 USD"},
		},
		"a whole client": {
			{`{"op":"buying_power","client":"c:1"}`, "no such account: c:1 has no account"},
			{`{"op":"open","account":"c:1:a"}`, fine},
			{`{"op":"open","account":"c:1:b"}`, fine},
			{`{"op":"open","account":"c:10:a"}`, fine},
			{`{"op":"deposit","account":"c:1:a","amount":"7","commodity":"EUR"}`, fine},
			{`{"op":"deposit","account":"c:1:b","amount":"3","commodity":"EUR"}`, fine},
			{`{"op":"deposit","account":"c:10:a","amount":"90","commodity":"EUR"}`, fine},
			{`{"op":"credit_check","client":"c:1","at_least":{"amount":"10","commodity":"EUR"}}`, fine},
			{`{"op":"credit_check","client":"c:1","at_least":{"amount":"10.01","commodity":"EUR"}}`, "no credit: c:1 has 10 EUR, which is less than 10.01 EUR"},
			{`{"op":"close_client","client":"c:1"}`, "client not empty: c:1:a still has 7 EUR"},
			{`{"op":"withdraw","account":"c:1:a","amount":"7","commodity":"EUR"}`, fine},
			{`{"op":"withdraw","account":"c:1:b","amount":"3","commodity":"EUR"}`, fine},
			{`{"op":"close_client","client":"c:1"}`, fine},
			{`{"op":"close_client","client":"c:1"}`, "account closed: c:1"},
			{`{"op":"buying_power","client":"c:1"}`, "account closed: c:1"},
			{`{"op":"deposit","account":"c:1:a","amount":"7","commodity":"EUR"}`, "account closed: c:1:a"},
			{`{"op":"open","account":"c:1:c"}`, "account closed: c:1:c cannot be opened again"},
			{`{"op":"post","postings":[{"account":"c:1:a","amount":"7"}]}`, "account closed: c:1:a"},
			{`{"op":"deposit","account":"c:10:a","amount":"1","commodity":"EUR"}`, fine},
		},
		"posting": {
			{`{"op":"post","postings":[{"account":"A:X","amount":"-5","commodity":"$"},{"account":"A","amount":"2","commodity":"$"},{"account":"A:X","amount":"1","commodity":"$"}]}`, fine},
			{`{"op":"post","expect":[{"account":"A","balance":"2","commodity":"$"},{"account":"A","balance":"-2","commodity":"$","scope":"subtree"}]}`, fine},
			{`{"op":"post","expect":[{"account":"A","balance":"-2","commodity":"$"}]}`, "expectation not met: A has 2 $, expected -2 $"},
			{`{"op":"post","postings":[{"account":"A:X","amount":"1","commodity":"$"}],"expect":[{"account":"/","balance":"0","commodity":"$","scope":"subtree","tolerance":"0.5"}]}`,
				"expectation not met: / with all below it has -1 $, expected 0 $ (within 0.5)"},
			{`{"op":"post","expect":[{"account":"/","balance":"-1.5","commodity":"$","scope":"subtree","tolerance":"0.5"}]}`, fine},
			{`{"op":"end_of_day","expect":[{"account":"/","balance":"-2","commodity":"$","scope":"subtree"}]}`, fine},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := applied{t, store.NewTables()}
			for _, s := range steps {
				_, err := b.message(s.message)
				if s.answer == fine {
					require.NoError(t, err, s.message)
					continue
				}
				require.EqualError(t, err, s.answer, s.message)
				refusal, ok := book.Refused(err)
				require.True(t, ok)
				require.EqualError(t, refusal, s.answer)
			}
		})
	}
}

func TestReplies(t *testing.T) {
	b := applied{t, store.NewTables()}
	_, err := b.message(`{"op":"post","postings":[{"account":"c:1:a","amount":"2.50","commodity":"EUR"},{"account":"c:1:b","amount":"1","commodity":"CHF"},{"account":"c:2","amount":"4","commodity":"EUR"}]}`)
	require.NoError(t, err)
	power, err := b.message(`{"op":"buying_power","client":"c:1"}`)
	require.NoError(t, err)
	assert.Equal(t, "[1 CHF 2.50 EUR]", text(power.Totals))
	day, err := b.message(`{"op":"end_of_day"}`)
	require.NoError(t, err)
	assert.Equal(t, "[1 CHF 6.50 EUR]", text(day.Totals))
}

func text(totals []book.Money) string {
	s := "["
	for i, m := range totals {
		if i > 0 {
			s += " "
		}
		s += m.String()
	}
	return s + "]"
}

func TestClaims(t *testing.T) {
	for message, keys := range map[string][]string{
		`{"op":"open","account":"c:1:a"}`:                                             {"c/1/a"},
		`{"op":"deposit","account":"c:1:a","amount":"1"}`:                             {"c/1/a"},
		`{"op":"withdraw","account":"c:1:a","amount":"1"}`:                            {"c/1/a"},
		`{"op":"transfer","from":"c:1","to":"c:2","amount":"1"}`:                      {"c/1", "c/2"},
		`{"op":"convert","from":"c:1","to":"c:2","amount":"1","gets":{"amount":"1"}}`: {"c/1", "c/2"},
		`{"op":"buying_power","client":"c:1"}`:                                        {"c/1 (shared)"},
		`{"op":"credit_check","client":"c:1","at_least":{"amount":"1"}}`:              {"c/1 (shared)"},
		`{"op":"close_client","client":"c:1"}`:                                        {"c/1"},
		`{"op":"end_of_day"}`:                                                         {"/"},
		`{"op":"post","postings":[{"account":"a","amount":"0"},{"account":"a:b","amount":"1"},{"account":"x/y","amount":"1"}]}`:            {"a", "x%2Fy"},
		`{"op":"post","postings":[{"account":"a:b","amount":"1"}],"expect":[{"account":"a","balance":"1"},{"account":"z","balance":"0"}]}`: {"a (shared)", "a/b", "z (shared)"},
		`{"op":"post","expect":[{"account":"/","balance":"1","scope":"subtree"}]}`:                                                         {"/ (shared)"},
	} {
		m, err := book.Decode([]byte(message))
		require.NoError(t, err)
		var claim lockkeys.Claim
		require.NoError(t, m.Claim(&claim))
		var got []string
		for _, r := range claim.Requests() {
			got = append(got, r.String())
		}
		assert.Equal(t, keys, got, message)
	}
}
