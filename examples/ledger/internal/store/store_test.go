package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
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
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// server is started by the first test that needs it.
var server = sync.OnceValues(func() (*pgtest.Server, error) { return pgtest.New() })

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if s, err := server(); err == nil {
			s.Close()
		}
		os.Exit(code)
	}))
}

// kinds opens an empty store of each kind.
var kinds = map[string]func(t testing.TB) store.Store{
	"memory": func(testing.TB) store.Store { return store.NewMemory() },
	"sqlite": func(t testing.TB) store.Store { return open(t, filepath.Join(t.TempDir(), "ledger.db")) },
	"postgres": func(t testing.TB) store.Store {
		s, err := server()
		require.NoError(t, err)
		return open(t, s.Database(t))
	},
}

// every runs a test on an empty store of each kind.
func every(t *testing.T, test func(t *testing.T, s store.Store)) {
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func open(t testing.TB, name string) store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func changes(balances map[string]int64) *book.Changes {
	c := &book.Changes{States: map[book.Account]book.State{}, Balances: map[book.Holding]decimal.Decimal{}}
	for account, amount := range balances {
		c.States[book.Account(account)] = book.Active
		c.Balances[book.Holding{Account: book.Account(account), Commodity: "EUR"}] = decimal.New(amount, -2)
	}
	return c
}

// writer commits changes, each as the next message of a stream.
type writer struct {
	store  store.Store
	term   ordering.Term
	stream lockkeys.Key
	fence  int64
	last   uint64
}

func newWriter(t require.TestingT, s store.Store, stream string) *writer {
	w := &writer{store: s, stream: lockkeys.Must(stream)}
	term, err := s.Numbers().Begin(context.Background(), ordering.Consumer{Partition: stream})
	require.NoError(t, err)
	w.term = term
	states, err := term.Acquire(context.Background(), []lockkeys.Key{w.stream})
	require.NoError(t, err)
	w.fence, w.last = states[0].Fence, states[0].Last
	return w
}

func (w *writer) job(number uint64) ordering.Job[*ordering.Event] {
	e := &ordering.Event{Positions: []ordering.Position{{Stream: w.stream, Number: number}}, Payload: []byte(`{"op":"post"}`)}
	return ordering.NewJob(w.term, e, []int64{w.fence})
}

func (w *writer) commit(c *book.Changes) error {
	w.last++
	job := w.job(w.last)
	return w.store.Commit(context.Background(), job, store.Result{Event: job.Event, Changes: c})
}

func listing(t require.TestingT, s book.Reader, subtree book.Account) (lines []string) {
	balances, err := s.Balances(context.Background(), subtree)
	require.NoError(t, err)
	for _, b := range balances {
		lines = append(lines, fmt.Sprintf("%s %s", b.Account, b.Money))
	}
	slices.Sort(lines)
	return lines
}

// The longest names that a message may have fit into every store.
func TestLongNames(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	name := func(characters int) string {
		text := make([]rune, characters)
		for i := range text {
			text[i] = 0x20000 + random.Int32N(40_000) // of four bytes, and not to be compressed
		}
		return string(text)
	}
	account, err := book.ParseAccount(name(512))
	require.NoError(t, err)
	var commodity book.Commodity
	require.NoError(t, commodity.UnmarshalText([]byte(name(64))))
	every(t, func(t *testing.T, s store.Store) {
		c := changes(map[string]int64{account.String(): 1})
		c.Balances[book.Holding{Account: account, Commodity: commodity}] = decimal.New(1, 0)
		require.NoError(t, newWriter(t, s, "x").commit(c))
	})
}

func TestStore(t *testing.T) {
	every(t, func(t *testing.T, s store.Store) {
		ctx := context.Background()
		last, refused, err := s.Last(ctx)
		require.NoError(t, err)
		assert.Zero(t, last+refused)
		w := newWriter(t, s, "stream")
		require.NoError(t, w.commit(changes(map[string]int64{"a": 100, "a:b": 250, "a-b": 3, "a b": 4, "ab": 5})))
		closing := changes(map[string]int64{"a:b": -1})
		closing.States["a"] = book.Closed
		closing.Closing = []book.Money{{Amount: book.Amount{Decimal: decimal.New(1, 0)}, Commodity: "EUR"}}
		require.NoError(t, w.commit(closing))

		assert.Equal(t, []string{"a 1.00 EUR", "a:b -0.01 EUR"}, listing(t, s, "a"))
		assert.Equal(t, []string{"a-b 0.03 EUR"}, listing(t, s, "a-b"))
		assert.Len(t, listing(t, s, book.Root), 5)
		assert.Empty(t, listing(t, s, "b"))

		holdings := []book.Holding{{Account: "a:b", Commodity: "USD"}, {Account: "a:b", Commodity: "EUR"}}
		for i := range 600 { // more than one query of any database can ask for
			holdings = append(holdings, book.Holding{Account: book.Account(fmt.Sprint("none:", i)), Commodity: "EUR"})
		}
		amounts, err := s.Amounts(ctx, holdings)
		require.NoError(t, err)
		require.Len(t, amounts, len(holdings))
		assert.True(t, amounts[0].IsZero())
		assert.Equal(t, "-0.01", amounts[1].String())
		assert.True(t, amounts[601].IsZero())

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
		journal, err := s.Journal(ctx, 1)
		require.NoError(t, err)
		assert.Equal(t, 1, journal)
		assert.EqualValues(t, 2, s.Stats().Messages)
		assert.NotEmpty(t, s.Name())
		require.NoError(t, s.Refuse(ctx, store.Refusal{Event: "e1", Message: []byte("{}")}))
		require.NoError(t, s.Refuse(ctx, store.Refusal{Event: "e2", Message: []byte("{}"), Input: 1}))
		last, refused, err = s.Last(ctx)
		require.NoError(t, err)
		assert.Equal(t, []int64{2, 2}, []int64{last, refused})
		require.NoError(t, s.Refusals(ctx, 1, func(r store.Refusal) error {
			assert.Equal(t, store.Refusal{Entry: 2, Event: "e2", Message: []byte("{}"), Input: 1}, r)
			return nil
		}))
	})
}

// A message is applied with its numbers or not at all: a second time, out of
// the hands of its holder, or after an end of the store, nothing is.
func TestNumbersGuardTheBook(t *testing.T) {
	every(t, func(t *testing.T, s store.Store) {
		ctx := context.Background()
		before := newWriter(t, s, "stream")
		require.NoError(t, before.commit(changes(map[string]int64{"a": 1})))
		require.ErrorIs(t, s.Commit(ctx, before.job(1), store.Result{Event: &ordering.Event{ID: "twin"}, Changes: changes(map[string]int64{"a": 2})}), ordering.ErrDuplicate)
		assert.Equal(t, []string{"a 0.01 EUR"}, listing(t, s, book.Root))

		states, err := before.term.Acquire(ctx, []lockkeys.Key{before.stream})
		require.NoError(t, err)
		assert.EqualValues(t, 1, states[0].Last)
		known, err := before.term.Look(ctx, before.job(1).Event.Positions)
		require.NoError(t, err)
		require.NotNil(t, known[0].Job)
		assert.Equal(t, ordering.StatusApplied, known[0].Job.Status)
		last, err := s.Journal(ctx, 0)
		require.NoError(t, err)
		assert.Equal(t, 1, last)
	})
}

func TestInputs(t *testing.T) {
	every(t, func(t *testing.T, s store.Store) {
		ctx := context.Background()
		none, err := s.Inputs(ctx)
		require.NoError(t, err)
		assert.Empty(t, none)
		first, err := s.SaveInput(ctx, store.Input{Name: "a.csv", Identity: "abc"})
		require.NoError(t, err)
		second, err := s.SaveInput(ctx, store.Input{Name: "standard input"})
		require.NoError(t, err)
		first.Identity = "abcdef"
		again, err := s.SaveInput(ctx, first)
		require.NoError(t, err)
		assert.Equal(t, first, again)
		all, err := s.Inputs(ctx)
		require.NoError(t, err)
		assert.Equal(t, []store.Input{{ID: 1, Name: "a.csv", Identity: "abcdef"}, {ID: 2, Name: "standard input"}}, all)
		assert.Equal(t, second, all[1])

		for _, digests := range [][]byte{nil, {1, 2}, {1, 2, 3}} {
			if digests != nil {
				require.NoError(t, s.SaveDigests(ctx, first.ID, 7, digests))
			}
			found, err := s.Digests(ctx, first.ID, 7)
			require.NoError(t, err)
			assert.Equal(t, digests, found)
		}
	})
}

// All kinds of store are the same to who uses them.
func TestStoresAgree(t *testing.T) {
	names := []string{"a", "a:b", "a:b:c", "a-b", "a;", "b"}
	var writers []*writer
	for _, open := range kinds {
		writers = append(writers, newWriter(t, open(t), "stream"))
	}
	rapid.Check(t, func(t *rapid.T) {
		balances := rapid.MapOfN(rapid.SampledFrom(names), rapid.Int64Range(-1000, 1000), 0, 3).Draw(t, "balances")
		subtree := book.Account(rapid.SampledFrom(append(names, "")).Draw(t, "subtree"))
		var lists [][]string
		for _, w := range writers {
			require.NoError(t, w.commit(changes(balances)))
			lists = append(lists, listing(t, w.store, subtree))
			require.Equal(t, lists[0], listing(t, w.store, subtree))
		}
	})
}

func TestConcurrentCommits(t *testing.T) {
	every(t, func(t *testing.T, s store.Store) {
		const n = 200
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				account := fmt.Sprintf("a:%d", i)
				w := newWriter(t, s, fmt.Sprint(i))
				if assert.NoError(t, w.commit(changes(map[string]int64{account: 1}))) {
					assert.Len(t, listing(t, s, book.Account(account)), 1) // lasting when Commit returns
				}
			})
		}
		wg.Wait()
		assert.Len(t, listing(t, s, "a"), n)
		stats := s.Stats()
		assert.EqualValues(t, n, stats.Messages)
		assert.LessOrEqual(t, stats.Commits, stats.Messages+1, "with that by which it was opened")
	})
}

func TestReopen(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "a folder?", "100% #1&2.db") // nothing that a URL would mistake
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o755))
	s, err := store.Open(ctx, path)
	require.NoError(t, err)
	w := newWriter(t, s, "stream")
	require.NoError(t, w.commit(changes(map[string]int64{"a": 12_345})))
	require.NoError(t, s.Close())
	require.ErrorIs(t, w.commit(changes(nil)), ordering.ErrStoreClosed)
	require.FileExists(t, path)

	again := open(t, path)
	last, _, err := again.Last(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 1, last)
	assert.Equal(t, []string{"a 123.45 EUR"}, listing(t, again, book.Root))
	assert.EqualValues(t, 1, newWriter(t, again, "stream").last)
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
	require.ErrorContains(t, err, "not an SQLite database")
}

// A database of something else is refused, also one of another program with the
// same library, and no byte of it changes.
func TestForeignDatabases(t *testing.T) {
	for name, make := range map[string]string{
		"tables with our names": `CREATE TABLE accounts (x)`,
		"tables with others":    `CREATE TABLE "people" (x)`,
		"of the same library":   `CREATE TABLE ordering_session (x); CREATE TABLE schema_versions (x); CREATE TABLE balance (x)`,
		"of a producer":         `CREATE TABLE outbox_streams (x); CREATE TABLE produced (x)`,
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, "other #1?.db")
			db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path}).String())
			require.NoError(t, err)
			_, err = db.Exec(make)
			require.NoError(t, err)
			require.NoError(t, db.Close())
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			_, err = store.Open(context.Background(), path)
			require.ErrorIs(t, err, store.ErrForeign)
			require.ErrorContains(t, err, "nothing was changed")
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, before, after)
			files, err := os.ReadDir(folder)
			require.NoError(t, err)
			assert.Len(t, files, 1)
		})
	}
}

// A new database is its owner's alone.
func TestModeOfANewDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	require.NoError(t, newWriter(t, open(t, path), "x").commit(changes(map[string]int64{"a": 1})))
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
}

// Two programs on one database would lose updates, since their locks know
// nothing of each other. The one that opens it takes it over.
func TestAnotherProgramTakesOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	mine := newWriter(t, open(t, path), "stream")
	require.NoError(t, mine.commit(changes(map[string]int64{"a": 1})))
	other := newWriter(t, open(t, path), "stream")
	require.ErrorIs(t, mine.commit(changes(map[string]int64{"a": 5})), ordering.ErrFenced)
	require.NoError(t, other.commit(changes(map[string]int64{"a": 2})))
	assert.Equal(t, []string{"a 0.02 EUR"}, listing(t, other.store, book.Root))
}

func TestCommitIsWithdrawnInTime(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	w := newWriter(t, s, "stream")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	job := w.job(1)
	err := s.Commit(ctx, job, store.Result{Event: job.Event, Changes: changes(map[string]int64{"a": 1})})
	if err != nil { // either it was withdrawn, or it was written and says so
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, listing(t, s, book.Root))
		return
	}
	assert.Len(t, listing(t, s, book.Root), 1)
}

func TestCheckpoints(t *testing.T) {
	every(t, func(t *testing.T, s store.Store) {
		ctx := context.Background()
		for _, c := range []*store.Checkpoint{
			nil, {Messages: 7, Line: 9, Place: []byte("a"), Numbers: []byte("b")}, {Messages: 8, Line: 10, Place: []byte("c"), Numbers: []byte("d")}, nil,
		} {
			require.NoError(t, s.SaveCheckpoint(ctx, 3, c))
			found, err := s.Checkpoint(ctx, 3)
			require.NoError(t, err)
			assert.Equal(t, c, found)
			other, err := s.Checkpoint(ctx, 4)
			require.NoError(t, err)
			assert.Nil(t, other)
		}
	})
}
