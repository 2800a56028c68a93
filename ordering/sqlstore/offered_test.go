package sqlstore_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
