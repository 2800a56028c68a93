package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// both runs a test on an empty store of each kind.
func both(t *testing.T, test func(t *testing.T, s store.Store)) {
	t.Run("memory", func(t *testing.T) { test(t, store.NewMemory()) })
	t.Run("sqlite", func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "ledger.db"))
		test(t, s)
	})
}

func open(t testing.TB, path string) store.Store {
	t.Helper()
	s, err := store.OpenSQLite(context.Background(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func changes(seq uint64, balances map[string]int64) *book.Changes {
	c := &book.Changes{Seq: seq, Message: &book.Message{Op: book.Post}, States: map[book.Account]book.State{}, Balances: map[book.Holding]decimal.Decimal{}}
	for account, amount := range balances {
		c.States[book.Account(account)] = book.Active
		c.Balances[book.Holding{Account: book.Account(account), Commodity: "EUR"}] = decimal.New(amount, -2)
	}
	return c
}

func listing(t require.TestingT, s store.Store, subtree book.Account) (lines []string) {
	balances, err := s.Balances(context.Background(), subtree)
	require.NoError(t, err)
	for _, b := range balances {
		lines = append(lines, fmt.Sprintf("%s %s", b.Account, b.Money))
	}
	slices.Sort(lines)
	return lines
}

func TestStore(t *testing.T) {
	both(t, func(t *testing.T, s store.Store) {
		ctx := context.Background()
		last, err := s.Last(ctx)
		require.NoError(t, err)
		assert.Zero(t, last)
		require.NoError(t, s.Commit(ctx, changes(1, map[string]int64{"a": 100, "a:b": 250, "a-b": 3, "a b": 4, "ab": 5})))
		closing := changes(3, map[string]int64{"a:b": -1})
		closing.States["a"] = book.Closed
		closing.Closing = []book.Money{{Amount: book.Amount{Decimal: decimal.New(1, 0)}, Commodity: "EUR"}}
		require.NoError(t, s.Commit(ctx, closing))

		assert.Equal(t, []string{"a 1.00 EUR", "a:b -0.01 EUR"}, listing(t, s, "a"))
		assert.Equal(t, []string{"a-b 0.03 EUR"}, listing(t, s, "a-b"))
		assert.Len(t, listing(t, s, book.Root), 5)
		assert.Empty(t, listing(t, s, "b"))

		amount, err := s.Balance(ctx, book.Holding{Account: "a:b", Commodity: "EUR"})
		require.NoError(t, err)
		assert.Equal(t, "-0.01", amount.String())
		amount, err = s.Balance(ctx, book.Holding{Account: "a:b", Commodity: "USD"})
		require.NoError(t, err)
		assert.True(t, amount.IsZero())

		states, err := s.States(ctx, []book.Account{"a:b", "a", "a:c"})
		require.NoError(t, err)
		assert.Equal(t, []book.State{book.Active, book.Closed, book.Unknown}, states)
		for account, want := range map[book.Account]bool{"a": true, "a:b": true, "a:b:c": false, "b": false, book.Root: true} {
			exists, err := s.Exists(ctx, account)
			require.NoError(t, err)
			assert.Equal(t, want, exists, account)
		}
		accounts, err := s.Accounts(ctx)
		require.NoError(t, err)
		assert.Equal(t, []book.Account{"a", "a:b", "a b", "a-b", "ab"}, accounts)
		last, err = s.Last(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 3, last)
		journal, err := s.Journal(ctx)
		require.NoError(t, err)
		assert.Equal(t, 2, journal)
		assert.EqualValues(t, 2, s.Stats().Messages)
		assert.NotEmpty(t, s.Name())
	})
}

// The two kinds of store are the same to who uses them.
func TestStoresAgree(t *testing.T) {
	names := []string{"a", "a:b", "a:b:c", "a-b", "a;", "b"}
	both := map[string]store.Store{"memory": store.NewMemory(), "sqlite": open(t, filepath.Join(t.TempDir(), "ledger.db"))}
	seq := uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		seq++
		balances := rapid.MapOfN(rapid.SampledFrom(names), rapid.Int64Range(-1000, 1000), 0, 3).Draw(t, "balances")
		subtree := book.Account(rapid.SampledFrom(append(names, "")).Draw(t, "subtree"))
		var lists [][]string
		for _, s := range both {
			require.NoError(t, s.Commit(context.Background(), changes(seq, balances)))
			lists = append(lists, listing(t, s, subtree))
		}
		require.Equal(t, lists[0], lists[1])
	})
}

func TestConcurrentCommits(t *testing.T) {
	both(t, func(t *testing.T, s store.Store) {
		const n = 200
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				account := fmt.Sprintf("a:%d", i)
				if assert.NoError(t, s.Commit(context.Background(), changes(uint64(i+1), map[string]int64{account: 1}))) {
					assert.Len(t, listing(t, s, book.Account(account)), 1) // lasting when Commit returns
				}
			})
		}
		wg.Wait()
		assert.Len(t, listing(t, s, "a"), n)
		stats := s.Stats()
		assert.EqualValues(t, n, stats.Messages)
		assert.LessOrEqual(t, stats.Commits, stats.Messages)
	})
}

func TestReopen(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "a folder?", "100% #1&2.db") // nothing that a URL would mistake
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o755))
	s, err := store.Open(ctx, path)
	require.NoError(t, err)
	require.NoError(t, s.Commit(ctx, changes(7, map[string]int64{"a": 12_345})))
	require.NoError(t, s.Close())
	require.ErrorContains(t, s.Commit(ctx, changes(8, nil)), "closed")
	require.FileExists(t, path)

	again := open(t, path)
	last, err := again.Last(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 7, last)
	assert.Equal(t, []string{"a 123.45 EUR"}, listing(t, again, book.Root))
}

func TestOpenRefuses(t *testing.T) {
	ctx := context.Background()
	_, err := store.Open(ctx, "")
	require.ErrorContains(t, err, "no name")
	_, err = store.Open(ctx, filepath.Join(t.TempDir(), "missing", "ledger.db"))
	require.ErrorContains(t, err, "open database")
	text := filepath.Join(t.TempDir(), "text.db")
	require.NoError(t, os.WriteFile(text, []byte("this is no database, and long enough to be sure of that"), 0o600))
	_, err = store.Open(ctx, text)
	require.ErrorContains(t, err, "not a database")
}

// A message of which any part cannot be written leaves nothing, nor do those
// that were to be written with it; all of them are told.
func TestFailedCommitLeavesNothing(t *testing.T) {
	ctx := context.Background()
	s := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	require.NoError(t, s.Commit(ctx, changes(1, map[string]int64{"a": 1})))
	require.ErrorContains(t, s.Commit(ctx, changes(1, map[string]int64{"a": 2, "b": 2})), "journal entry 1") // its place is taken
	assert.Equal(t, []string{"a 0.01 EUR"}, listing(t, s, book.Root))
	require.NoError(t, s.Commit(ctx, changes(2, map[string]int64{"a": 3})))
	assert.Equal(t, []string{"a 0.03 EUR"}, listing(t, s, book.Root))
}

// Two programs on one database would lose updates, since their locks know
// nothing of each other. The one that comes second to write is told.
func TestAnotherProgramIsNoticed(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "ledger.db")
	mine, other := open(t, path), open(t, path)
	require.NoError(t, mine.Commit(ctx, changes(1, map[string]int64{"a": 1})))
	require.ErrorContains(t, other.Commit(ctx, changes(2, map[string]int64{"a": 5})), "another program")
	require.NoError(t, mine.Commit(ctx, changes(2, map[string]int64{"a": 2})))
	assert.Equal(t, []string{"a 0.02 EUR"}, listing(t, mine, book.Root))
}

func TestCommitIsWithdrawnInTime(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := s.Commit(ctx, changes(1, map[string]int64{"a": 1}))
	if err != nil { // either it was withdrawn, or it was written and says so
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, listing(t, s, book.Root))
		return
	}
	assert.Len(t, listing(t, s, book.Root), 1)
}

func TestNotOurSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	store.Exec(t, path, `CREATE TABLE things (x)`)
	_, err := store.Open(context.Background(), path)
	require.ErrorContains(t, err, "not a ledger of this version")
}
