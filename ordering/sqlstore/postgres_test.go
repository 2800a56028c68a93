package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

// TestTheServerIsKilled kills PostgreSQL with kill -9 while eight workers
// commit, three times: afterwards each number is done once, with its effect,
// and none is forgotten that was said to be durable.
func TestTheServerIsKilled(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	store := closed(t)(postgres.Open(t.Context(), server.Database(t)))
	in(t, store)
	const workers, kills = 8, 3
	var told [workers]uint64 // the last number that was said to be durable
	var commits, failures atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for i := range workers {
		key := lockkeys.Must(fmt.Sprint("w", i))
		wait.Go(func() {
			for ctx.Err() == nil {
				states, err := in(t, store).Acquire(ctx, []lockkeys.Key{key})
				if err != nil {
					failures.Add(1)
					continue
				}
				e := &ordering.Event{Positions: []ordering.Position{{Stream: key, Number: states[0].Last + 1}}}
				switch err := store.Do(ctx, ordering.NewJob(in(t, store), e, []int64{states[0].Fence}), effect(e.Name())); {
				case err == nil:
					told[i] = states[0].Last + 1
					commits.Add(1)
				case !errors.As(err, new(*ordering.StoreError)):
					assert.ErrorIs(t, err, context.Canceled)
				default:
					failures.Add(1)
				}
			}
		})
	}
	more := func(counter *atomic.Int64) {
		want := counter.Load() + 50
		require.Eventually(t, func() bool { return counter.Load() >= want }, waitAtMost, tick)
	}
	for range kills {
		more(&commits)
		server.Kill()
		more(&failures)
		require.NoError(t, server.Restart())
	}
	more(&commits)
	stop()
	wait.Wait()
	total := 0
	for i := range workers {
		n := last(t, store, fmt.Sprint("w", i))
		assert.GreaterOrEqual(t, n, told[i])
		total += int(n)
	}
	assert.Equal(t, total, effects(t, store))
	var distinct int
	require.NoError(t, store.DB().QueryRow(`SELECT count(DISTINCT event) FROM effects`).Scan(&distinct))
	assert.Equal(t, total, distinct)
}

// TestWhatTheServerChecksAtTheEnd is not the store's fault.
func TestWhatTheServerChecksAtTheEnd(t *testing.T) {
	store := closed(t)(postgres.Open(t.Context(), database(t)))
	require.NoError(t, store.Migrate(t.Context(), "twins", []string{`CREATE TABLE twins (n INT UNIQUE DEFERRABLE INITIALLY DEFERRED)`}))
	err := store.Do(t.Context(), job(t, store, "a", 1), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO twins VALUES (1), (1)`)
		return err
	})
	require.ErrorContains(t, err, "twins")
	assert.NotErrorAs(t, err, new(*ordering.StoreError))
	assert.Zero(t, last(t, store, "a"))
}

// TestAnErrorThatIsSwallowed: PostgreSQL commits nothing after it, however long the
// effect took.
func TestAnErrorThatIsSwallowed(t *testing.T) {
	store := closed(t)(postgres.Open(t.Context(), database(t)))
	for _, before := range []string{`SELECT 1`, `SELECT pg_sleep(0.02)`} {
		j := job(t, store, "a", 1)
		err := store.Do(t.Context(), j, func(ctx context.Context, tx *sql.Tx) error {
			_ = effect("a-1")(ctx, tx)
			_, err := tx.ExecContext(ctx, before)
			assert.NoError(t, err)
			_, err = tx.ExecContext(ctx, `SELECT no_such_thing`)
			assert.Error(t, err)
			return nil
		})
		require.ErrorContains(t, err, "a statement of it failed", before)
		require.NotErrorAs(t, err, new(*ordering.StoreError), "it is the event's fault")
		assert.False(t, j.IsCommitted())
		assert.Zero(t, last(t, store, "a"))
		assert.Zero(t, effects(t, store))
	}
}

// TestManyStreamsInOppositeOrders: transactions that lock the same streams do
// not deadlock, neither those of few streams nor those of many.
func TestManyStreamsInOppositeOrders(t *testing.T) {
	store := closed(t)(postgres.Open(t.Context(), database(t)))
	for _, streams := range []int{3, 20} {
		keys := make([]lockkeys.Key, streams)
		for i := range keys {
			keys[i] = lockkeys.Must(fmt.Sprint(streams), fmt.Sprint(i))
		}
		states, err := in(t, store).Acquire(t.Context(), keys)
		require.NoError(t, err)
		const events = 40
		var wait sync.WaitGroup
		for n := range uint64(events) {
			e, fences := &ordering.Event{}, []int64{}
			for i := range keys {
				at := i
				if n%2 == 0 {
					at = streams - 1 - i
				}
				e.Positions = append(e.Positions, ordering.Position{Stream: keys[at], Number: n + 1})
				fences = append(fences, states[at].Fence)
			}
			wait.Go(func() {
				assert.NoError(t, store.Do(t.Context(), ordering.NewJob(in(t, store), e, fences), func(context.Context, *sql.Tx) error { return nil }))
			})
		}
		wait.Wait()
		for _, key := range keys {
			assert.EqualValues(t, events, last(t, store, key.String()))
		}
	}
}
