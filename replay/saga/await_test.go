package saga_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/replay/saga"
)

// TestAwait: who waits for a run learns how it has ended, whether that was before or is
// still to come.
func TestAwait(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		goOn := make(chan struct{})
		c := coordinator(t, config(store), saga.Register(saga.Definition[order]{Name: "checkout", Version: 1, Steps: []saga.Step[order]{
			{Name: "pay", Do: func(ctx context.Context, _ saga.Call, o *order) error {
				select {
				case <-goOn:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}}}}))
		_, err := c.Await(t.Context(), "1")
		require.ErrorIs(t, err, saga.ErrNoRun)
		start(t, c, store, "1", order{})
		type end struct {
			status saga.Status
			err    error
		}
		ends := make(chan end, 3)
		for range cap(ends) {
			go func() {
				status, err := c.Await(t.Context(), "1")
				ends <- end{status, err}
			}()
		}
		goOn <- struct{}{}
		for range cap(ends) {
			require.Equal(t, end{saga.Completed, nil}, <-ends)
		}
		status, err := c.Await(t.Context(), "1")
		require.NoError(t, err)
		require.Equal(t, saga.Completed, status, "it had ended before")

		start(t, c, store, "2", order{})
		short, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errAway)
		defer cancel()
		_, err = c.Await(short, "2")
		require.Error(t, err)
		go func() {
			status, err := c.Await(t.Context(), "2")
			ends <- end{status, err}
		}()
		require.NoError(t, c.Close())
		require.ErrorIs(t, (<-ends).err, saga.ErrClosed)
	})
}
