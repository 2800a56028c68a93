package madeup_test

import (
	"bytes"
	"context"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/madeup"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

func ndjson(t *testing.T, n int, seed uint64) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, feed.WriteNDJSON(&b, madeup.New(n, seed)))
	return b.String()
}

func TestSameSeedSameMessages(t *testing.T) {
	assert.Equal(t, ndjson(t, 2000, 7), ndjson(t, 2000, 7))
	assert.NotEqual(t, ndjson(t, 2000, 7), ndjson(t, 2000, 8))
}

// What the generator makes is valid, read back to the same, and has something
// of everything.
func TestMessages(t *testing.T) {
	const n = 20_000
	text := ndjson(t, n, 1)
	source := feed.NewNDJSON(strings.NewReader(text))
	ops, rejected, expected := map[book.Op]int{}, map[book.Op]int{}, 0
	var again bytes.Buffer
	for range n {
		item, err := source.Next()
		require.NoError(t, err)
		ops[item.Message.Op]++
		if item.Message.Reject {
			rejected[item.Message.Op]++
		}
		expected += len(item.Message.Expect)
		one := one(item)
		require.NoError(t, feed.WriteNDJSON(&again, &one))
	}
	_, err := source.Next()
	require.Equal(t, io.EOF, err)
	assert.Equal(t, text, again.String())
	for _, op := range book.Ops() {
		assert.Positive(t, ops[op], op)
	}
	for _, op := range []book.Op{book.Withdraw, book.Transfer, book.Convert, book.CreditCheck, book.CloseClient, book.Deposit} {
		assert.Positive(t, rejected[op], op)
	}
	assert.Less(t, rejected[book.Withdraw]*10, ops[book.Withdraw])
	assert.Equal(t, 10, ops[book.EndOfDay])
	assert.Greater(t, expected, n/10)
}

var seeds = flag.Uint64("seeds", 8, "how many seeds TestTheModelAndTheBookAgree tries")

// The model that made the messages and the book say the same of each, whatever
// the seed.
func TestTheModelAndTheBookAgree(t *testing.T) {
	ctx := context.Background()
	for seed := range *seeds {
		tables := store.NewTables()
		g := madeup.New(20_000, seed+1)
		for {
			item, err := g.Next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			require.NoError(t, item.Message.Validate())
			tx := book.Begin(ctx, tables)
			_, err = book.Apply(tx, item.Message)
			require.Equal(t, item.Message.Reject, err != nil, "seed %d, message %d, %+v: %v", seed+1, item.Line, item.Message, err)
			if err == nil {
				tables.Apply(tx.Changes())
			}
		}
	}
}

// one is a source of one message.
type one feed.Item

func (o *one) Next() (feed.Item, error) {
	if o.Message == nil {
		return feed.Item{}, io.EOF
	}
	item := feed.Item(*o)
	o.Message = nil
	return item, nil
}

func TestSmallInputs(t *testing.T) {
	for n := range 40 {
		g := madeup.New(n, uint64(n))
		assert.Equal(t, n, g.Total())
		assert.Equal(t, n, strings.Count(ndjson(t, n, uint64(n)), "\n"))
	}
}

func TestJournal(t *testing.T) {
	input := `{"op":"open","account":"c:1"}
{"op":"deposit","account":"c:1","amount":"5.00","commodity":"EUR","expect":[{"account":"c:1","balance":"5.00","commodity":"EUR"},{"account":"c","balance":"5.00","commodity":"EUR","scope":"subtree"},{"account":"/","balance":"5.00","commodity":"EUR","scope":"subtree"}]}
{"op":"withdraw","account":"c:1","amount":"9.00","commodity":"EUR","reject":true}
{"op":"end_of_day"}
{"op":"post","postings":[{"account":"c:1","amount":"-1"},{"account":"d","amount":"1"}],"expect":[{"account":"d","balance":"1","tolerance":"0.1"}]}
`
	var journal bytes.Buffer
	require.NoError(t, madeup.WriteJournal(&journal, feed.NewNDJSON(strings.NewReader(input))))
	assert.Equal(t, `decimal-mark .

2024-01-01 deposit  ; message 2
    (c:1)  5.00 "EUR"
    (c:1)  0 "EUR" = 5.00 "EUR"
    (c)  0 "EUR" =* 5.00 "EUR"

2024-01-02 post  ; message 5
    (c:1)  -1
    (d)  1
`, journal.String())
	require.Error(t, madeup.WriteJournal(&journal, feed.NewNDJSON(strings.NewReader("nonsense"))))
}
