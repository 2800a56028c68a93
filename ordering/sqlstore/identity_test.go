package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// TestWhatIsAcknowledgedRuns, though a producer gives IDs that are the numbers
// within each order, and the first event of each order comes late; and another
// event with a number that was done is refused, also by the next process.
func TestWhatIsAcknowledgedRuns(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		const orders, each = 10, 6
		at := func(order, n int) *ordering.Event {
			return &ordering.Event{ID: fmt.Sprint(n), Payload: fmt.Appendf(nil, "%d/%d", order, n),
				Positions: []ordering.Position{{Stream: lockkeys.Must("order", fmt.Sprint(order)), Number: uint64(n)}}}
		}
		store := open()
		start := func() *ordering.Sequencer[*ordering.Event] {
			seq, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{Store: store, GapTimeout: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
				Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
					return effect(string(job.Event.Payload))(ctx, tx)
				})})
			require.NoError(t, err)
			return seq
		}
		seq := start()
		told := make(chan ordering.Outcome, orders*each)
		done := func(_ *ordering.Event, o ordering.Outcome) { told <- o }
		for order := range orders {
			for n := 2; n <= each; n++ {
				require.NoError(t, seq.Offer(t.Context(), at(order, n), done))
			}
		}
		require.Eventually(t, func() bool { return seq.Stats().Parkings == orders }, waitAtMost, tick)
		for order := range orders {
			require.NoError(t, seq.Offer(t.Context(), at(order, 1), done))
		}
		for range orders * each {
			require.True(t, (<-told).Ack())
		}
		require.Eventually(t, func() bool { return effects(t, store) == orders*each }, waitAtMost, tick)
		require.NoError(t, seq.Drain(t.Context()))
		require.NoError(t, seq.Close())

		seq = start()
		for order := range orders {
			require.NoError(t, seq.Offer(t.Context(), at(order, each), done))
			require.Equal(t, ordering.Duplicate, (<-told).Result)
			other := at(order, each)
			other.Payload = []byte("another amount")
			require.NoError(t, seq.Offer(t.Context(), other, done))
			o := <-told
			require.Equal(t, ordering.Refused, o.Result)
			require.ErrorAs(t, o.Err, new(*ordering.ConflictError))
		}
		require.NoError(t, seq.Close())
		assert.Equal(t, orders*each, effects(t, store))
	})
}

// TestAJobHasEndedWhenItsEffectHas, also where its numbers are written before.
func TestAJobHasEndedWhenItsEffectHas(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		j := job(t, store, "a", 1)
		began := time.Now()
		require.NoError(t, sqlstore.InTx(store, func(context.Context, *sql.Tx, ordering.Job[*ordering.Event]) error {
			time.Sleep(30 * time.Millisecond)
			return nil
		})(t.Context(), j))
		known, err := in(t, store).Look(t.Context(), j.Event.Positions)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, known[0].Job.Ended.Sub(began), 30*time.Millisecond-time.Microsecond)
	})
}
