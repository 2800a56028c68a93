package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// everywhere runs a test on both databases.
func everywhere(t *testing.T, test func(t *testing.T, open func() *sqlstore.Store)) {
	t.Run("SQLite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "positions.db")
		test(t, func() *sqlstore.Store { return closed(t)(sqlite.Open(t.Context(), path)) })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		url := pgtest.Start(t, "fsync=off").Database(t)
		test(t, func() *sqlstore.Store { return closed(t)(postgres.Open(t.Context(), url)) })
	})
}

func closed(t *testing.T) func(*sqlstore.Store, error) *sqlstore.Store {
	return func(store *sqlstore.Store, err error) *sqlstore.Store {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, store.Close()) })
		require.NoError(t, store.Migrate(t.Context(), "test", []string{`CREATE TABLE effects (event TEXT NOT NULL)`}))
		return store
	}
}

func job(t *testing.T, store ordering.Store, stream string, n uint64) ordering.Job {
	t.Helper()
	key := lockkeys.MustParse(stream)
	states, err := store.Acquire(t.Context(), []lockkeys.Key{key})
	require.NoError(t, err)
	e := &ordering.Event{ID: fmt.Sprintf("%s-%d", stream, n), Positions: []ordering.Position{{Stream: key, Number: n}}}
	return ordering.NewJob(e, []int64{states[0].Fence})
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
	states, err := store.Acquire(t.Context(), []lockkeys.Key{lockkeys.MustParse(stream)})
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
		err := store.Do(t.Context(), job(t, store, "a", 1), func(context.Context, *sql.Tx) error {
			t.Error("called")
			return nil
		})
		require.ErrorIs(t, err, ordering.ErrDuplicate)

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
		require.PanicsWithValue(t, "oh", func() {
			_ = store.Do(t.Context(), job(t, store, "a", 2), func(ctx context.Context, tx *sql.Tx) error {
				require.NoError(t, effect("a-2")(ctx, tx))
				panic("oh")
			})
		})
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

func TestADatabaseOfANewerProgramIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "positions.db")
	store, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, store.Migrate(t.Context(), "ordering", []string{"", "CREATE TABLE of_the_future (n INT)"}))
	require.NoError(t, store.Close())
	_, err = sqlite.Open(t.Context(), path)
	require.ErrorIs(t, err, ordering.ErrSchema)
	require.ErrorContains(t, err, path)
}

func TestATruncatedFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "positions.db")
	writeFile(t, path, "this is not a database, but long enough to be taken for one if nobody looks at how it begins")
	_, err := sqlite.Open(t.Context(), path)
	require.ErrorContains(t, err, path)
}

// TestWorkersShareTransactions: what waits at the same time is committed in
// one transaction.
func TestWorkersShareTransactions(t *testing.T) {
	store := closed(t)(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "positions.db")))
	const workers = 16
	var wait sync.WaitGroup
	entered, leave := make(chan struct{}), make(chan struct{})
	first := job(t, store, "first", 1)
	wait.Go(func() {
		assert.NoError(t, store.Do(t.Context(), first, func(context.Context, *sql.Tx) error {
			close(entered)
			<-leave
			return nil
		}))
	})
	<-entered
	before := store.Commits()
	for i := range workers {
		stream := fmt.Sprintf("s%d", i)
		j := job(t, store, stream, 1)
		wait.Go(func() { assert.NoError(t, store.Do(t.Context(), j, effect(stream))) })
	}
	require.Eventually(t, func() bool { return store.Waiting() == workers }, waitAtMost, tick)
	close(leave)
	wait.Wait()
	assert.EqualValues(t, 2, store.Commits()-before, "that of the first, and one for all others")
	assert.Equal(t, workers, effects(t, store))
}

func TestAFailedEffectDoesNotUndoItsNeighbours(t *testing.T) {
	store := closed(t)(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "positions.db")))
	var wait sync.WaitGroup
	broken := errors.New("broken")
	for i := range 50 {
		stream := fmt.Sprintf("s%d", i)
		j := job(t, store, stream, 1)
		wait.Go(func() {
			err := store.Do(t.Context(), j, func(ctx context.Context, tx *sql.Tx) error {
				if err := effect(stream)(ctx, tx); err != nil || i%3 != 0 {
					return err
				}
				return broken
			})
			assert.Equal(t, i%3 == 0, errors.Is(err, broken))
		})
	}
	wait.Wait()
	assert.Equal(t, 33, effects(t, store))
}
