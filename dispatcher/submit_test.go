package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

var errGiveUp = errors.New("the submitter gives up")

// sized gives jobs the length of their name as size.
func sized(max int64) config {
	return config{Workers: 1, MaxPendingBytes: max, Size: func(j *job) int64 { return int64(len(j.name)) }}
}

func TestSubmitEndsWithItsContext(t *testing.T) {
	for name, cfg := range map[string]config{"count": {Workers: 1, MaxPending: 1}, "bytes": sized(4)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := start(t, cfg)
				submit(t, d, newJob("slow", takes(time.Hour, nil)))
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGiveUp)
				defer cancel()
				begun := time.Now()
				require.ErrorIs(t, d.Submit(ctx, newJob("more", nil)), errGiveUp)
				require.Equal(t, time.Second, time.Since(begun))
				require.ErrorIs(t, d.Submit(ctx, newJob("more", nil)), errGiveUp)
				require.ErrorIs(t, d.Do(ctx, newJob("more", nil)), errGiveUp)
				_, err := d.Go(ctx, newJob("more", nil))
				require.ErrorIs(t, err, errGiveUp)
				n, err := d.SubmitBatch(ctx, []*job{newJob("more", nil)})
				require.ErrorIs(t, err, errGiveUp)
				require.Zero(t, n)
				// Nobody waits any more, and the slot comes back in an hour.
				submit(t, d, newJob("next", nil))
				require.Equal(t, time.Hour, time.Since(begun))
				drain(t, d)
				require.EqualValues(t, 2, d.Stats().Succeeded)
			})
		})
	}
}

func TestSubmitWithAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{})
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errGiveUp)
		require.ErrorIs(t, d.Submit(ctx, newJob("", nil)), errGiveUp)
		require.ErrorIs(t, d.Do(ctx, newJob("", nil)), errGiveUp)
		n, err := d.SubmitBatch(ctx, []*job{newJob("", nil)})
		require.ErrorIs(t, err, errGiveUp)
		require.Zero(t, n)
		require.Zero(t, d.Stats().Accepted)
	})
}

// TestSubmittersWaitInOrder: submissions that wait are accepted in the order
// in which they came, and nobody passes them.
func TestSubmittersWaitInOrder(t *testing.T) {
	for name, cfg := range map[string]config{"count": {Workers: 1, MaxPending: 3}, "bytes": sized(3 * 3)} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				synctest.Test(t, func(t *testing.T) { waitInOrder(t, cfg) })
			}
		})
	}
}

func waitInOrder(t *testing.T, cfg config) {
	var order []string
	run := func(name string) *job {
		return newJob(name, func(context.Context) error {
			order = append(order, name)
			time.Sleep(time.Millisecond)
			return nil
		}, "k")
	}
	d := start(t, cfg)
	var want []string
	var submitters sync.WaitGroup
	for i := range 40 {
		name := fmt.Sprintf("m%02d", i)
		want = append(want, name)
		submitters.Go(func() { submit(t, d, run(name)) })
		synctest.Wait()
		if i > 3 {
			require.ErrorIs(t, d.TrySubmit(t.Context(), run("try")), dispatcher.ErrFull)
		}
	}
	submitters.Wait()
	drain(t, d)
	require.Equal(t, want, order)
}

// TestSmallSubmissionsDoNotPassALargeOne: what waits for much room gets it.
func TestSmallSubmissionsDoNotPassALargeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, sized(10))
		var largeAt atomic.Int64
		begun := time.Now()
		go func() {
			for range 10 {
				submit(t, d, newJob("s", takes(time.Second, nil), "k"))
			}
			go func() {
				submit(t, d, newJob("0123456789", nil, "k"))
				largeAt.Store(int64(time.Since(begun)))
			}()
			synctest.Wait()
			for range 20 {
				submit(t, d, newJob("s", takes(time.Second, nil), "k"))
			}
		}()
		time.Sleep(time.Minute)
		drain(t, d)
		require.Equal(t, 10*time.Second, time.Duration(largeAt.Load()))
		require.EqualValues(t, 31, d.Stats().Succeeded)
	})
}

func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, sized(4))
		large := newJob("large", nil)
		require.ErrorIs(t, d.Submit(t.Context(), large), dispatcher.ErrTooLarge)
		require.ErrorIs(t, d.TrySubmit(t.Context(), large), dispatcher.ErrTooLarge)
		require.ErrorIs(t, d.Do(t.Context(), large), dispatcher.ErrTooLarge)
		n, err := d.SubmitBatch(t.Context(), []*job{newJob("ok", nil), large, newJob("ok", nil)})
		require.ErrorIs(t, err, dispatcher.ErrTooLarge)
		require.Equal(t, 1, n)
		require.NoError(t, d.Do(t.Context(), newJob("fits", nil)))
		drain(t, d)
		require.EqualValues(t, 2, d.Stats().Accepted)
	})
	// A negative size counts as none.
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{MaxPendingBytes: 1, Size: func(*job) int64 { return -5 }})
		for range 100 {
			require.NoError(t, d.Do(t.Context(), newJob("", nil)))
		}
	})
}

func TestSubmitBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1})
		n, err := d.SubmitBatch(t.Context(), nil)
		require.NoError(t, err)
		require.Zero(t, n)
		// Two batches do not mix.
		var mu sync.Mutex
		var order []string
		var producers sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			var batch []*job
			for range 100 {
				batch = append(batch, newJob(name, func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, name)
					return nil
				}, "k"))
			}
			producers.Go(func() {
				n, err := d.SubmitBatch(t.Context(), batch)
				require.NoError(t, err)
				require.Equal(t, 100, n)
			})
		}
		producers.Wait()
		drain(t, d)
		changes := 0
		for i := range order[1:] {
			if order[i] != order[i+1] {
				changes++
			}
		}
		require.Equal(t, 1, changes)
	})
	// A batch larger than the queue goes in as room comes, in order, and its
	// callback is called for each.
	for _, cfg := range []config{{Workers: 2, MaxPending: 7}, sized(7)} {
		synctest.Test(t, func(t *testing.T) {
			d := start(t, cfg)
			var order []int
			var batch []*job
			for i := range 100 {
				batch = append(batch, newJob("x", func(context.Context) error {
					time.Sleep(time.Millisecond)
					order = append(order, i)
					return nil
				}, "k"))
			}
			var results atomic.Int32
			n, err := d.SubmitBatch(t.Context(), batch, dispatcher.OnDone(func(*job, error) { results.Add(1) }))
			require.NoError(t, err)
			require.Equal(t, 100, n)
			drain(t, d)
			require.IsIncreasing(t, order)
			require.EqualValues(t, 100, results.Load())
		})
	}
	// It tells how many were accepted before its context ended.
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1, MaxPending: 3})
		var batch []*job
		for range 10 {
			batch = append(batch, newJob("", takes(time.Second, nil), "k"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		n, err := d.SubmitBatch(ctx, batch)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 5, n)
		drain(t, d)
		require.EqualValues(t, 5, d.Stats().Succeeded)
	})
}

func TestDoAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 2})
		require.NoError(t, d.Do(t.Context(), newJob("", nil, "a")))
		require.ErrorIs(t, d.Do(t.Context(), newJob("", takes(0, errBoom), "a")), errBoom)

		// Do gives up waiting; the message runs all the same.
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGiveUp)
		defer cancel()
		require.ErrorIs(t, d.Do(ctx, newJob("", takes(time.Minute, nil), "a")), errGiveUp)
		require.Equal(t, 1, d.Stats().Running)

		var told error
		ticket, err := d.Go(t.Context(), newJob("", takes(time.Second, errBoom), "b"), dispatcher.OnDone(func(_ *job, err error) { told = err }))
		require.NoError(t, err)
		require.NoError(t, ticket.Err())
		require.ErrorIs(t, ticket.Wait(ctx), errGiveUp)
		<-ticket.Done()
		require.ErrorIs(t, ticket.Err(), errBoom)
		require.ErrorIs(t, told, errBoom)
		for range 50 {
			require.ErrorIs(t, ticket.Wait(ctx), errBoom, "a result that is there comes before the end of ctx")
		}
		drain(t, d)
	})
}

// TestNested: a handler cannot wait for another message of its dispatcher.
func TestNested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1, MaxPending: 2})
		other := start(t, config{Workers: 1})
		err := d.Do(t.Context(), newJob("outer", func(ctx context.Context) error {
			derived, cancel := context.WithTimeout(context.WithValue(ctx, errBoom, 1), time.Hour)
			defer cancel()
			require.ErrorIs(t, d.Do(ctx, newJob("", nil)), dispatcher.ErrNested)
			require.ErrorIs(t, d.Do(derived, newJob("", nil)), dispatcher.ErrNested)
			require.NoError(t, d.Submit(ctx, newJob("fits", nil)))
			require.ErrorIs(t, d.Submit(derived, newJob("full", nil)), dispatcher.ErrNested)
			_, err := d.Go(ctx, newJob("full", nil))
			require.ErrorIs(t, err, dispatcher.ErrNested)
			n, err := d.SubmitBatch(ctx, []*job{newJob("full", nil)})
			require.ErrorIs(t, err, dispatcher.ErrNested)
			require.Zero(t, n)
			return other.Do(ctx, newJob("another dispatcher", nil))
		}, "a"))
		require.NoError(t, err)
		drain(t, d)
		require.EqualValues(t, 2, d.Stats().Accepted)
	})
}

// TestTheLargestSizes: their sum is not taken for a small one.
func TestTheLargestSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{MaxPendingBytes: math.MaxInt64, Size: func(*job) int64 { return math.MaxInt64/2 + 1 }})
		require.NoError(t, d.TrySubmit(t.Context(), newJob("", takes(time.Second, nil), "a")))
		require.ErrorIs(t, d.TrySubmit(t.Context(), newJob("", nil, "b")), dispatcher.ErrFull)
		drain(t, d)
	})
}

// TestTheLargestSizesParked: nor is it when they are parked.
func TestTheLargestSizesParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{MaxPendingBytes: math.MaxInt64, Size: func(*job) int64 { return math.MaxInt64/2 + 1 }, Failure: dispatcher.Park})
		for _, key := range []string{"a", "b"} {
			require.NoError(t, d.TrySubmit(t.Context(), newJob("", takes(0, errBoom), key)))
			synctest.Wait()
		}
		require.Equal(t, 1, d.Stats().Beyond)
		require.ErrorIs(t, d.TrySubmit(t.Context(), newJob("", nil, "c")), dispatcher.ErrFull)
	})
}
