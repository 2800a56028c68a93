package ordering

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// written counts the streams that are named to a store in parkings.
type written struct {
	*Memory
	mu      sync.Mutex
	streams int
}

func (w *written) Begin(ctx context.Context, c Consumer) (Term, error) {
	t, err := w.Memory.Begin(ctx, c)
	return &writtenTerm{t, w}, err
}

type writtenTerm struct {
	Term
	w *written
}

func (t *writtenTerm) Park(ctx context.Context, p Parking, fences Fences) error {
	t.w.mu.Lock()
	t.w.streams += len(p.Streams)
	t.w.mu.Unlock()
	return t.Term.Park(ctx, p, fences)
}

// TestAGrowingParkingIsWrittenOnce: a failure that spreads over many streams, one
// after the other, writes each of them once, and the first one each time.
func TestAGrowingParkingIsWrittenOnce(t *testing.T) {
	const n = 500
	w := &written{Memory: NewMemory()}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, w)
		r.start(Config[*Event]{GapTimeout: time.Hour})
		r.failing("start", errors.New("bad"))
		r.give(ev("start", "s0=1"))
		synctest.Wait()
		for i := range n {
			r.give(chained(i)) // of its two streams one is closed already
			synctest.Wait()
		}
		parked := r.parked()
		require.Len(t, parked, 1)
		require.Len(t, parked[0].Streams, n+1)
		require.LessOrEqual(t, w.streams, 2*(n+1))

		r.failing("start", nil)
		require.NoError(t, r.seq.Resume(t.Context(), key("s0")))
		time.Sleep(time.Hour)
		require.EqualValues(t, n+1, r.seq.Stats().Applied)
		r.stop()
	})
}
