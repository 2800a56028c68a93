package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/ordering"
)

var errUndone = errors.New("undone")

// Whatever is committed, alone or in a chain, or fails and is undone: a message reads
// what those before it have written that were not undone, whether it was read before or
// not, and so does another program later.
func TestReadsAfterCommits(t *testing.T) {
	names := []book.Account{"a", "a:b", "b", "c"}
	holding := func(a book.Account) book.Holding { return book.Holding{Account: a, Commodity: "EUR"} }
	rapid.Check(t, func(r *rapid.T) {
		path := filepath.Join(t.TempDir(), fmt.Sprint("ledger-", rapid.Uint64().Draw(r, "name"), ".db"))
		s, err := store.Open(context.Background(), path)
		require.NoError(r, err)
		d := s.(*store.Database)
		w := newWriter(r, s, "stream")
		want := map[book.Account]int64{} // of what is in the book
		check := func(ctx context.Context, s store.Store, want map[book.Account]int64) {
			some := rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(r, "read")
			holdings := make([]book.Holding, len(some))
			for i, a := range some {
				holdings[i] = holding(a)
			}
			states, err := s.States(ctx, some)
			require.NoError(r, err)
			amounts, err := s.Amounts(ctx, holdings)
			require.NoError(r, err)
			for i, a := range some {
				amount, ok := want[a]
				require.Equal(r, ok, states[i] == book.Active, a)
				require.True(r, amounts[i].Equal(decimal.New(amount, -2)), "%s: %s", a, amounts[i])
			}
			list, err := s.Balances(ctx, book.Root)
			require.NoError(r, err)
			require.Len(r, list, len(want))
			for _, p := range list {
				require.True(r, p.Amount.Equal(decimal.New(want[p.Account], -2)), "%s", p.Account)
			}
			_, below := want["a:b"]
			_, itself := want["a"]
			exists, err := s.Exists(ctx, "a")
			require.NoError(r, err)
			require.Equal(r, below || itself, exists)
		}
		commit := func(ctx context.Context, number uint64, into map[book.Account]int64) error {
			balances := rapid.MapOfN(rapid.SampledFrom(names), rapid.Int64Range(-1000, 1000), 1, 3).Draw(r, "balances")
			texts := map[string]int64{}
			for a, n := range balances {
				texts[string(a)] = n
			}
			job := w.job(number)
			err := s.Commit(ctx, job, store.Result{Event: job.Event, Changes: changes(texts)})
			if err == nil {
				for a, n := range balances {
					into[a] = n
				}
			}
			return err
		}
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			check(context.Background(), s, want)
			switch rapid.IntRange(0, 2).Draw(r, "what") {
			case 0:
				w.last++
				require.NoError(r, commit(context.Background(), w.last, want))
			case 1: // what is done already
				if w.last > 0 {
					require.ErrorIs(r, commit(context.Background(), w.last, map[book.Account]int64{}), ordering.ErrDuplicate)
				}
			case 2:
				messages := rapid.IntRange(1, 4).Draw(r, "chain")
				undone := rapid.Bool().Draw(r, "undone")
				within := map[book.Account]int64{}
				for a, n := range want {
					within[a] = n
				}
				err := d.Together(context.Background(), func(ctx context.Context) error {
					for i := range messages {
						check(ctx, s, within)
						require.NoError(r, commit(ctx, w.last+uint64(i)+1, within))
					}
					check(ctx, s, within)
					if undone {
						return errUndone
					}
					return nil
				})
				if undone {
					require.ErrorIs(r, err, errUndone)
					continue
				}
				require.NoError(r, err)
				want, w.last = within, w.last+uint64(messages)
			}
		}
		check(context.Background(), s, want)
		require.NoError(r, s.Close())
		again, err := store.Open(context.Background(), path)
		require.NoError(r, err)
		check(context.Background(), again, want)
		require.NoError(r, again.Close())
	})
}

// What a chain knows by an ID, the next message of it knows.
func TestKnownInAChain(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	w := newWriter(t, s, "stream")
	d := s.(*store.Database)
	for i, end := range []error{errUndone, nil} {
		err := d.Together(context.Background(), func(ctx context.Context) error {
			job := w.job(1)
			require.NoError(t, s.Commit(ctx, job, store.Result{Event: job.Event, Changes: changes(nil), Known: &store.Known{ID: "x", Digest: "d"}}))
			known, err := s.Known(ctx, "x")
			require.NoError(t, err)
			assert.Equal(t, "d", known.Digest)
			return end
		})
		require.ErrorIs(t, err, end)
		known, err := s.Known(context.Background(), "x")
		require.NoError(t, err)
		assert.Equal(t, i == 1, known != nil)
	}
}
