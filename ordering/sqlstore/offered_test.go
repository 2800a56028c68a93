package sqlstore_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// TestOfferedInAnEffect: an event that a handler offers has the values of the context of the
// handler, or of its effect, but runs for itself: not in the transaction of the handler's
// chain, nor within its effect.
func TestOfferedInAnEffect(t *testing.T) {
	type user struct{}
	for name, together := range map[string]bool{"alone": false, "in a chain": true} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
				store := open()
				b := newBank(t, store, func(cfg *ordering.Config[*ordering.Event]) {
					if !together {
						cfg.Together = nil
					}
				})
				b.special["hot-2"] = func(ctx context.Context, _ *sql.Tx, _ ordering.Job[*ordering.Event]) error {
					return b.seq.Offer(context.WithValue(ctx, user{}, "ann"), deposits("next", 1)[0], nil)
				}
				seen := make(chan any, 1)
				b.special["next-1"] = func(ctx context.Context, _ *sql.Tx, _ ordering.Job[*ordering.Event]) error {
					seen <- ctx.Value(user{})
					return nil
				}
				b.offer(deposits("hot", 1, 2, 3)...)
				b.gathered(0)
				b.run()
				assert.Equal(t, []string{"hot-1", "hot-2", "hot-3"}, b.journal("hot"))
				assert.Equal(t, []string{"next-1"}, b.journal("next"))
				assert.Equal(t, "ann", <-seen)
				parked, err := b.seq.Parked(t.Context())
				require.NoError(t, err)
				assert.Empty(t, parked)
			})
		})
	}
}

// TestOfferedToAnotherSequencer: the messages of two sequencers have the same numbers, and
// are not taken for each other.
func TestOfferedToAnotherSequencer(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		var first, second *ordering.Sequencer[*ordering.Event]
		told := make(chan ordering.Outcome, 1)
		begin := func(partition string, handle func(ctx context.Context) error) *ordering.Sequencer[*ordering.Event] {
			seq, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
				Store: store, Consumer: ordering.Consumer{Partition: partition}, Failure: dispatcher.DeadLetter,
				Handler:    sqlstore.InTx(store, func(ctx context.Context, _ *sql.Tx, _ ordering.Job[*ordering.Event]) error { return handle(ctx) }),
				Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{Workers: 1, MaxAttempts: 1},
			})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, seq.Close()) })
			return seq
		}
		second = begin("second", func(context.Context) error { return nil })
		first = begin("first", func(ctx context.Context) error {
			return second.Offer(ctx, &ordering.Event{Positions: at("b", 1)}, func(_ *ordering.Event, o ordering.Outcome) { told <- o })
		})
		require.NoError(t, first.Offer(t.Context(), &ordering.Event{Positions: at("a", 1)}, nil))
		select {
		case o := <-told:
			require.NoError(t, o.Err)
			require.Equal(t, ordering.Applied, o.Result)
		case <-time.After(waitAtMost):
			t.Fatal("the event that was offered has no outcome")
		}
	})
}
