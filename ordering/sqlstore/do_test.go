package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// everywhere runs a test on both databases.
func everywhere(t *testing.T, test func(t *testing.T, open func() *sqlstore.Store)) {
	t.Run("SQLite", func(t *testing.T) {
		path := empty(t)
		test(t, func() *sqlstore.Store { return closed(t)(sqlite.Open(t.Context(), path)) })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		url := database(t)
		test(t, func() *sqlstore.Store { return closed(t)(postgres.Open(t.Context(), url)) })
	})
}

// empty returns the path of an SQLite database that has all tables and no rows. It
// is a copy: with the race detector, tests would spend most of their time making
// tables.
func empty(t *testing.T) string {
	t.Helper()
	database, err := original()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "positions.db")
	require.NoError(t, os.WriteFile(path, database, 0o600))
	return path
}

var original = sync.OnceValues(func() (database []byte, err error) {
	dir, err := os.MkdirTemp("", "sqlstore")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, path := context.Background(), filepath.Join(dir, "positions.db")
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(store.Migrate(ctx, "test", effectsTable), store.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// effectsTable is where the effects of tests are.
var effectsTable = []string{`CREATE TABLE effects (event TEXT NOT NULL)`}

// database makes a PostgreSQL database and returns its URL.
func database(t *testing.T) string {
	t.Helper()
	s, err := server()
	require.NoError(t, err)
	return s.Database(t)
}

func closed(t *testing.T) func(*sqlstore.Store, error) *sqlstore.Store {
	return func(store *sqlstore.Store, err error) *sqlstore.Store {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, store.Close()) })
		require.NoError(t, store.Migrate(t.Context(), "test", effectsTable))
		return store
	}
}

// terms are the terms of stores in tests: of each there is one, of a partition of
// its own.
var terms sync.Map

// in returns the term of a store.
func in(t *testing.T, store ordering.Store) ordering.Term {
	t.Helper()
	if term, ok := terms.Load(store); ok {
		return term.(ordering.Term)
	}
	term, err := store.Begin(t.Context(), ordering.Consumer{Partition: fmt.Sprintf("%p", store)})
	require.NoError(t, err)
	terms.Store(store, term)
	t.Cleanup(func() { terms.Delete(store) })
	return term
}

func job(t *testing.T, store ordering.Store, stream string, n uint64) ordering.Job[*ordering.Event] {
	t.Helper()
	key := lockkeys.MustParse(stream)
	states, err := in(t, store).Acquire(t.Context(), []lockkeys.Key{key})
	require.NoError(t, err)
	e := &ordering.Event{ID: fmt.Sprintf("%s-%d", stream, n), Positions: []ordering.Position{{Stream: key, Number: n}}}
	return ordering.NewJob(in(t, store), e, []int64{states[0].Fence})
}

func at(stream string, n uint64) []ordering.Position {
	return []ordering.Position{{Stream: lockkeys.MustParse(stream), Number: n}}
}

func effect(id string) func(ctx context.Context, tx *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO effects (event) VALUES ($1)`, id)
		return err
	}
}

func effects(t *testing.T, store *sqlstore.Store) (n int) {
	t.Helper()
	require.NoError(t, store.DB().QueryRow(`SELECT count(*) FROM effects`).Scan(&n))
	return n
}

func last(t *testing.T, store ordering.Store, stream string) uint64 {
	t.Helper()
	states, err := in(t, store).Acquire(t.Context(), []lockkeys.Key{lockkeys.MustParse(stream)})
	require.NoError(t, err)
	return states[0].Last
}

func TestEffectAndNumberAreOne(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		j := job(t, store, "a", 1)
		require.NoError(t, store.Do(t.Context(), j, effect("a-1")))
		assert.True(t, j.IsCommitted())

		t.Log("a duplicate has no effect")
		err := store.Do(t.Context(), job(t, store, "a", 1), effect("a-1"))
		require.ErrorIs(t, err, ordering.ErrDuplicate)
		require.NotErrorAs(t, err, new(*ordering.StoreError))
		require.Equal(t, 1, effects(t, store))

		t.Log("an effect that fails leaves the number undone")
		broken := errors.New("broken")
		j = job(t, store, "a", 2)
		err = store.Do(t.Context(), j, func(ctx context.Context, tx *sql.Tx) error {
			require.NoError(t, effect("a-2")(ctx, tx))
			return broken
		})
		require.ErrorIs(t, err, broken)
		assert.False(t, j.IsCommitted())

		t.Log("and so does one that panics")
		var panicked *dispatcher.PanicError
		err = store.Do(t.Context(), job(t, store, "a", 2), func(ctx context.Context, tx *sql.Tx) error {
			require.NoError(t, effect("a-2")(ctx, tx))
			panic("oh")
		})
		require.ErrorAs(t, err, &panicked)
		assert.Equal(t, "oh", panicked.Value)
		assert.Contains(t, string(panicked.Stack), "TestEffectAndNumberAreOne")
		require.NotErrorAs(t, err, new(*ordering.StoreError))

		t.Log("or calls Goexit")
		var wait sync.WaitGroup
		j = job(t, store, "a", 2)
		wait.Go(func() {
			_ = store.Do(t.Context(), j, func(ctx context.Context, tx *sql.Tx) error {
				_ = effect("a-2")(ctx, tx)
				exit()
				return nil
			})
		})
		wait.Wait()
		assert.False(t, j.IsCommitted())
		assert.Equal(t, 1, effects(t, store))
		assert.EqualValues(t, 1, last(t, store, "a"))

		require.NoError(t, store.Do(t.Context(), job(t, store, "a", 2), effect("a-2")))
		require.NoError(t, store.Close())
		again := open()
		assert.Equal(t, 2, effects(t, again))
		assert.EqualValues(t, 2, last(t, again, "a"))
	})
}

func TestAZombieHasNoEffect(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		zombie := open()
		j := job(t, zombie, "a", 1)
		heir := open()
		_ = last(t, heir, "a") // it takes over
		require.ErrorIs(t, zombie.Do(t.Context(), j, effect("a-1")), ordering.ErrFenced)
		assert.Zero(t, effects(t, heir))
		require.NoError(t, heir.Do(t.Context(), job(t, heir, "a", 1), effect("a-1")))
	})
}

type anyKey struct{}

// TestAnEffectThatCallsItsStore would wait for itself.
func TestAnEffectThatCallsItsStore(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		j, inner := job(t, store, "a", 1), job(t, store, "b", 1)
		calls := map[string]func(ctx context.Context) error{
			"Do":     func(ctx context.Context) error { return store.Do(ctx, inner, effect("b-1")) },
			"Commit": func(ctx context.Context) error { return store.Commit(ctx, inner.Record()) },
			"Prune": func(ctx context.Context) error {
				_, err := in(t, store).Prune(ctx, time.Now(), time.Time{})
				return err
			},
			"Migrate": func(ctx context.Context) error { return store.Migrate(ctx, "x", []string{`SELECT 1`}) },
			"Prepare": func(ctx context.Context) error { _, err := store.Prepare(ctx, `SELECT 1`); return err },
		}
		require.NoError(t, store.Do(t.Context(), j, func(ctx context.Context, tx *sql.Tx) error {
			for name, call := range calls {
				assert.ErrorIs(t, call(context.WithValue(ctx, anyKey{}, 1)), dispatcher.ErrNested, name)
			}
			return effect("a-1")(ctx, tx)
		}))
		assert.Equal(t, 1, effects(t, store))
	})
}

// TestWrite: what goes with no event is written or not, and on SQLite by whoever
// opened the database last.
func TestWrite(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		require.NoError(t, store.Write(t.Context(), effect("x")))
		wrong := errors.New("wrong")
		require.ErrorIs(t, store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(effect("y")(ctx, tx), wrong)
		}), wrong)
		require.ErrorIs(t, store.Write(t.Context(), func(ctx context.Context, _ *sql.Tx) error {
			return store.Write(ctx, effect("z"))
		}), dispatcher.ErrNested)
		assert.Equal(t, 1, effects(t, store))

		again := open()
		if err := store.Write(t.Context(), effect("late")); err != nil {
			require.ErrorIs(t, err, ordering.ErrFenced)
			assert.Equal(t, 1, effects(t, again))
		}
	})
}

func TestStatementsArePreparedForEffects(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		insert, err := store.Prepare(t.Context(), `INSERT INTO effects (event) VALUES ($1)`)
		require.NoError(t, err)
		for n := range uint64(3) {
			j := job(t, store, "a", n+1)
			require.NoError(t, store.Do(t.Context(), j, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.StmtContext(ctx, insert).ExecContext(ctx, j.Event.Name())
				return err
			}))
		}
		assert.Equal(t, 3, effects(t, store))
		require.NoError(t, store.Close())
		_, err = store.Prepare(t.Context(), `SELECT 1`)
		require.ErrorIs(t, err, ordering.ErrStoreClosed)
	})
}

// TestCloseWaits: what has begun is committed, and nothing begins any more.
func TestCloseWaits(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		var wait sync.WaitGroup
		entered, leave := make(chan struct{}), make(chan struct{})
		j, late := job(t, store, "a", 1), job(t, store, "b", 1)
		wait.Go(func() {
			assert.NoError(t, store.Do(t.Context(), j, func(ctx context.Context, tx *sql.Tx) error {
				close(entered)
				<-leave
				return effect("a-1")(ctx, tx)
			}))
		})
		<-entered
		end := sync.OnceFunc(func() { close(leave) })
		defer end()
		closing := make(chan error, 1)
		go func() { closing <- store.Close() }()
		require.Eventually(t, func() bool {
			_, err := store.Reader("").Parked(t.Context()) // which waits for nobody
			return errors.Is(err, ordering.ErrStoreClosed)
		}, waitAtMost, tick)
		require.ErrorIs(t, store.Do(t.Context(), late, effect("b-1")), ordering.ErrStoreClosed)
		assert.Empty(t, closing)
		end()
		require.NoError(t, <-closing)
		wait.Wait()
		again := open()
		assert.Equal(t, 1, effects(t, again))
		assert.EqualValues(t, 1, last(t, again, "a"))
	})
}
