package ordering

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// take waits for the turn, as takeTurn does.
func (t *turn) take(ctx context.Context) bool {
	if t.try() {
		return true
	}
	defer t.leave()
	if t.await() {
		return true
	}
	select {
	case <-t.passed:
		return true
	case <-ctx.Done():
		return false
	}
}

// One goroutine at a time has the turn, and it is not lost, also when goroutines stop
// waiting for it at the moment at which it is passed on. If it were, those that go on
// waiting would do so for ever, which synctest detects.
func TestTurnIsHadByOneAndNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turn turn
		turn.init()
		had := 0 // guarded by the turn, as the race detector checks
		var taken atomic.Int64
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for range 5000 {
					ctx, cancel := context.WithCancel(t.Context())
					if i%2 == 0 {
						go cancel()
					}
					if turn.take(ctx) {
						had++
						turn.pass()
						taken.Add(1)
					}
					cancel()
				}
			})
		}
		all.Wait()
		require.EqualValues(t, had, taken.Load())
		require.Zero(t, turn.waiting.Load())
		require.True(t, turn.try() || len(turn.passed) == 1, "it is free, or on its way to the next one that waits")
	})
}

// The turn is passed to those that wait, in the order in which they began to, and
// nobody else takes it first.
func TestTurnIsPassedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turn turn
		turn.init()
		require.True(t, turn.try())
		const waiting = 5
		var order []int
		next := make(chan struct{})
		for i := range waiting {
			go func() {
				turn.take(t.Context())
				order = append(order, i)
				<-next
				turn.pass()
			}()
			synctest.Wait()
		}
		turn.pass()
		for i := range waiting {
			require.False(t, turn.try())
			synctest.Wait()
			require.Len(t, order, i+1)
			require.Equal(t, i, order[i])
			next <- struct{}{}
			synctest.Wait()
		}
		require.True(t, turn.try())
	})
}

// The turn may be passed after a goroutine has found it taken and before it waits.
func TestTurnIsSeenByWhoBeginsToWait(t *testing.T) {
	var turn turn
	turn.init()
	require.True(t, turn.try())
	require.False(t, turn.try())
	turn.pass()
	require.True(t, turn.await())
	turn.leave()
	require.False(t, turn.try())
}
