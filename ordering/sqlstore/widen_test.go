package sqlstore_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// TestAnEffectThatWantsMoreKeys: an effect finds out in its transaction that it
// needs another key. What it has written is undone, and it is called again with
// that key.
func TestAnEffectThatWantsMoreKeys(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		more := lockkeys.Request{Key: lockkeys.Must("b")}
		sequencer, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
			Store: store,
			Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
				if err := effect(job.Event.Name())(ctx, tx); err != nil {
					return err
				}
				if dispatcher.Holds(ctx, more) != nil {
					return dispatcher.Widen(more)
				}
				return nil
			}),
		})
		require.NoError(t, err)
		defer sequencer.Close()
		for n := range uint64(3) {
			require.NoError(t, sequencer.Offer(t.Context(), &ordering.Event{Positions: at("a", n+1)}, nil))
		}
		outcome, err := sequencer.Do(t.Context(), &ordering.Event{ID: "command"})
		require.NoError(t, err)
		assert.Equal(t, ordering.Applied, outcome.Result)
		require.NoError(t, sequencer.Drain(t.Context()))
		parked, err := sequencer.Parked(t.Context())
		require.NoError(t, err)
		assert.Empty(t, parked)
		assert.Equal(t, 4, effects(t, store))
	})
}
