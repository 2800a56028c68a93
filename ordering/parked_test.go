package ordering

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// written counts the calls of a store for parkings, and the streams that are named
// in them.
type written struct {
	*Memory
	mu                      sync.Mutex
	streams, parks, unparks int
}

func (w *written) Begin(ctx context.Context, c Consumer) (Term, error) {
	t, err := w.Memory.Begin(ctx, c)
	return &writtenTerm{t, w}, err
}

type writtenTerm struct {
	Term
	w *written
}

func (t *writtenTerm) Park(ctx context.Context, parkings []Parking, fences Fences) error {
	t.w.mu.Lock()
	t.w.parks++
	for _, p := range parkings {
		t.w.streams += len(p.Streams)
	}
	t.w.mu.Unlock()
	return t.Term.Park(ctx, parkings, fences)
}

func (t *writtenTerm) Unpark(ctx context.Context, ids []string, fences Fences) error {
	t.w.mu.Lock()
	t.w.unparks++
	t.w.mu.Unlock()
	return t.Term.Unpark(ctx, ids, fences)
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

// TestManyGapsAreParkedTogether: streams that are parked at the same time, and
// resumed at the same time, cost few transactions of the store.
func TestManyGapsAreParkedTogether(t *testing.T) {
	const n = 2000
	w := &written{Memory: NewMemory()}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, w)
		r.start(Config[*Event]{GapTimeout: time.Second})
		for i := range n {
			r.give(ev(fmt.Sprint("second", i), fmt.Sprintf("s%d=2", i)))
		}
		time.Sleep(time.Minute)
		require.Len(t, r.parked(), n)
		require.Less(t, w.parks, n/4) // how many go together depends on the scheduler

		for i := range n {
			r.give(ev(fmt.Sprint("first", i), fmt.Sprintf("s%d=1", i)))
		}
		time.Sleep(time.Minute)
		require.Empty(t, r.parked())
		require.EqualValues(t, 2*n, r.seq.Stats().Applied)
		require.Less(t, w.unparks, n/4)
		r.stop()
	})
}

// TestANoticeThatARequestWasInVain: who leaves a stream alone that only waits is told when it
// needs an operator.
func TestANoticeThatARequestWasInVain(t *testing.T) {
	story(t, Config[*Event]{MaxEarly: 1, GapTimeout: time.Second}, func(t *testing.T, r *rig) {
		r.offer(ev("a1", "a=1"), ev("a3", "a=3"), ev("a4", "a=4"))
		reasons := func() (list []Reason) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, n := range r.notices {
				if n.Kind == StreamParked {
					list = append(list, n.Reason)
				}
			}
			return list
		}
		require.Equal(t, []Reason{Waiting}, reasons())
		r.sleep(time.Minute)
		require.Equal(t, []Reason{Waiting, Gap}, reasons())
	})
}
