package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
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

// TestHandlersReadBesideTheirTransaction, more of them than there are
// connections of any kind, all at the same time.
func TestHandlersReadBesideTheirTransaction(t *testing.T) {
	test := func(t *testing.T, store *sqlstore.Store, workers int) {
		var together sync.WaitGroup // as many as can have a transaction
		atOnce := min(workers, max(1, store.MaxHandlers()))
		together.Add(atOnce)
		arrive := make(chan struct{}, atOnce)
		var log bytes.Buffer
		sequencer, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{Store: store,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
				select {
				case arrive <- struct{}{}:
					together.Done()
					together.Wait()
				default:
				}
				var n int
				if err := store.DB().QueryRowContext(ctx, `SELECT count(*) FROM effects`).Scan(&n); err != nil {
					return err
				}
				return effect(job.Event.Name())(ctx, tx)
			}),
			Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{Workers: workers}})
		require.NoError(t, err)
		defer sequencer.Close()
		for i := range 2 * workers {
			require.NoError(t, sequencer.Offer(t.Context(), &ordering.Event{Positions: at(fmt.Sprint("s", i), 1)}, nil))
		}
		require.NoError(t, sequencer.Drain(t.Context()))
		assert.Equal(t, 2*workers, effects(t, store))
		few := store.MaxHandlers() > 0 && store.MaxHandlers() < workers
		assert.Equal(t, few, bytes.Contains(log.Bytes(), []byte("more workers")), "who has too many is told")
	}
	t.Run("SQLite", func(t *testing.T) {
		test(t, closed(t)(sqlite.Open(t.Context(), empty(t))), 64)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		store := closed(t)(postgres.Open(t.Context(), database(t)))
		require.GreaterOrEqual(t, store.MaxHandlers(), 64, "as many as a sequencer has workers by default")
		test(t, store, 64)
	})
	t.Run("PostgreSQL with few connections", func(t *testing.T) {
		test(t, closed(t)(postgres.Open(t.Context(), database(t)+"&pool_max_conns=3")), 20)
	})
}

// TestTheStoreDoesNotWaitForHandlers: with all their connections taken, those of
// callers too, it still sees to streams and parkings.
func TestTheStoreDoesNotWaitForHandlers(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		for range store.DB().Stats().MaxOpenConnections {
			conn, err := store.DB().Conn(t.Context())
			require.NoError(t, err)
			defer conn.Close()
		}
		key := lockkeys.Must("a")
		states, err := in(t, store).Acquire(t.Context(), []lockkeys.Key{key})
		require.NoError(t, err)
		fences := ordering.Fences{key: states[0].Fence}
		leave := make(chan struct{})
		var wait sync.WaitGroup
		for i := range store.MaxHandlers() {
			j := job(t, store, fmt.Sprint("h", i), 1)
			entered := make(chan struct{})
			wait.Go(func() {
				assert.NoError(t, store.Do(t.Context(), j, func(context.Context, *sql.Tx) error {
					close(entered)
					<-leave
					return nil
				}))
			})
			<-entered
		}
		e := &ordering.Event{ID: "a-1", Positions: at("a", 1)}
		require.NoError(t, in(t, store).Hold(t.Context(), []*ordering.Event{e}, fences))
		require.NoError(t, in(t, store).Park(t.Context(), []ordering.Parking{{ID: "p", Reason: ordering.Gap, Streams: []ordering.ParkedStream{{Stream: key, Number: 1}}, Since: time.Now()}}, fences))
		parked, err := in(t, store).Parked(t.Context())
		require.NoError(t, err)
		assert.Len(t, parked, 1)
		_, err = in(t, store).Held(t.Context(), key, 1, 10, 1<<20)
		require.NoError(t, err)
		_, err = in(t, store).Look(t.Context(), at("a", 1))
		require.NoError(t, err)
		require.NoError(t, in(t, store).Unpark(t.Context(), []string{"p"}, fences))
		close(leave)
		wait.Wait()
	})
}

// TestAHandlerThatWaitsForAConnection gives up when its time is over, and says
// so.
func TestAHandlerThatWaitsForAConnection(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		require.NoError(t, store.LimitEffects(50*time.Millisecond))
		store.DB().SetMaxOpenConns(1)
		conn, err := store.DB().Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		err = store.Do(t.Context(), job(t, store, "a", 1), func(ctx context.Context, _ *sql.Tx) error {
			return store.DB().PingContext(ctx)
		})
		require.ErrorIs(t, err, sqlstore.ErrTooLong)
		assert.NotErrorAs(t, err, new(*ordering.StoreError))
	})
}

// TestAPoolerThatTakesSessionsAway is refused by name, with what to do.
func TestAPoolerThatTakesSessionsAway(t *testing.T) {
	s, err := server()
	require.NoError(t, err)
	url := s.Database(t)
	for _, protocol := range []string{"", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		for _, size := range []int{1, 4} {
			pooler := s.Pooler(t, url, "transaction", size)
			if protocol != "" {
				pooler += "&default_query_exec_mode=" + protocol
			}
			_, err := postgres.Open(t.Context(), pooler)
			require.ErrorIs(t, err, sqlstore.ErrPooled)
			require.ErrorContains(t, err, "pool_mode=session")
		}
	}
	t.Log("but with sessions it is as good as none, with the store's settings")
	for _, parameter := range []string{"", "&idle_in_transaction_session_timeout=7s"} {
		store := closed(t)(postgres.Open(t.Context(), s.Pooler(t, url, "session", 100)+parameter))
		j := job(t, store, "a"+parameter[:min(1, len(parameter))], 1)
		require.NoError(t, store.Do(t.Context(), j, effect("x")))
	}
}
