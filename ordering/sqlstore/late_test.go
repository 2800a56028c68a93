package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// TestAnEffectThatIsLeftBehind: a handler returns, since its time is over for example, while
// an effect that it has started still runs. That is not committed, and the next attempt is.
func TestAnEffectThatIsLeftBehind(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		returned, left := make(chan struct{}), make(chan error, 1)
		calls := 0
		s, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
			Store: store, Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{MaxAttempts: 2},
			Handler: func(ctx context.Context, job ordering.Job[*ordering.Event]) error {
				if calls++; calls == 2 {
					close(returned)
					job.Reply([]byte("second"))
					return store.Do(ctx, job, effect("second"))
				}
				began := make(chan struct{})
				go func() {
					left <- store.Do(context.WithoutCancel(ctx), job, func(ctx context.Context, tx *sql.Tx) error {
						close(began)
						<-returned
						job.Reply([]byte("first"))
						return effect("first")(ctx, tx)
					})
				}()
				<-began
				return errors.New("it takes too long")
			},
		})
		require.NoError(t, err)
		defer s.Close()
		o, err := s.Do(t.Context(), &ordering.Event{ID: "pay-1"})
		require.NoError(t, err)
		assert.Equal(t, ordering.Outcome{Result: ordering.Applied, Reply: []byte("second")}, o)
		require.ErrorIs(t, <-left, ordering.ErrJobOver)
		assert.Equal(t, 1, effects(t, store))
		assert.Equal(t, 1, count(t, store, "second"))
	})
}

// TestAnEffectThatIsCalledAgainRepliesAnew: the first call was rolled back with an effect
// that has failed, and its reply with it. What the handler has replied before stays.
func TestAnEffectThatIsCalledAgainRepliesAnew(t *testing.T) {
	for name, c := range map[string]struct{ before, first, second, want []byte }{
		"not at all":        {nil, []byte("paid"), nil, nil},
		"something else":    {nil, []byte("paid"), []byte("refused"), []byte("refused")},
		"as before, by now": {[]byte("seen"), []byte("paid"), nil, []byte("seen")},
	} {
		t.Run(name, func(t *testing.T) {
			store := closed(t)(sqlite.Open(t.Context(), empty(t)))
			j, other := job(t, store, "a", 1), job(t, store, "b", 1)
			entered, leave := make(chan struct{}), make(chan struct{})
			var wait sync.WaitGroup
			do := func(job ordering.Job[*ordering.Event], fails bool, apply func(ctx context.Context, tx *sql.Tx) error) {
				wait.Go(func() {
					err := store.Do(t.Context(), job, apply)
					assert.Equal(t, fails, err != nil, "%v", err)
				})
			}
			enter := sync.OnceFunc(func() { close(entered) }) // it is called again too
			do(job(t, store, "c", 1), false, func(context.Context, *sql.Tx) error { enter(); <-leave; return nil })
			<-entered
			calls := 0
			if c.before != nil {
				j.Reply(c.before)
			}
			do(j, false, func(ctx context.Context, tx *sql.Tx) error {
				reply := c.first
				if calls++; calls > 1 {
					reply = c.second
				}
				if reply != nil {
					j.Reply(reply)
				}
				return effect("a")(ctx, tx)
			})
			require.Eventually(t, func() bool { return store.Waiting() == 1 }, waitAtMost, tick)
			do(other, true, func(ctx context.Context, tx *sql.Tx) error {
				return errors.Join(effect("b")(ctx, tx), errors.New("no money"))
			})
			require.Eventually(t, func() bool { return store.Waiting() == 2 }, waitAtMost, tick)
			close(leave)
			wait.Wait()
			require.Equal(t, 2, calls)
			states, err := in(t, store).Look(t.Context(), j.Event.Positions)
			require.NoError(t, err)
			assert.Equal(t, c.want, states[0].Job.Reply)
			assert.Equal(t, c.want, j.Replied())
		})
	}
}
