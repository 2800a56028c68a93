package dispatcher_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

func TestSubmitAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{MaxPending: 1})
		require.NoError(t, d.Err())
		require.NoError(t, d.Close())
		require.ErrorIs(t, d.Err(), dispatcher.ErrClosed)
		for range 3 { // even more often than there are slots
			require.ErrorIs(t, d.Submit(t.Context(), newJob("", nil)), dispatcher.ErrClosed)
			require.ErrorIs(t, d.TrySubmit(t.Context(), newJob("", nil)), dispatcher.ErrClosed)
			require.ErrorIs(t, d.Do(t.Context(), newJob("", nil)), dispatcher.ErrClosed)
			_, err := d.SubmitBatch(t.Context(), []*job{newJob("", nil), newJob("", nil)})
			require.ErrorIs(t, err, dispatcher.ErrClosed)
		}
		require.ErrorIs(t, d.Resume(t.Context(), 1), dispatcher.ErrClosed)
		require.ErrorIs(t, d.Skip(t.Context(), 1), dispatcher.ErrClosed)
		require.ErrorIs(t, d.Drop(t.Context(), 1), dispatcher.ErrClosed)
		require.NoError(t, d.Close())
		drain(t, d)
	})
}

// TestWaitingSubmittersAreToldOfShutdown: whoever waits for room learns that
// there will be none.
func TestWaitingSubmittersAreToldOfShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1, MaxPending: 1})
		submit(t, d, newJob("", takes(time.Second, nil)))
		var told atomic.Int32
		for range 10 {
			go func() {
				if errors.Is(d.Submit(context.Background(), newJob("", nil)), dispatcher.ErrClosed) {
					told.Add(1)
				}
			}()
		}
		synctest.Wait()
		begun := time.Now()
		go func() { _ = d.Close() }()
		synctest.Wait()
		require.EqualValues(t, 10, told.Load())
		require.Zero(t, time.Since(begun))
	})
}

// TestSubmitDuringShutdown: each message is accepted, and then has exactly one
// result, or it is refused; whatever moment the shutdown hits.
func TestSubmitDuringShutdown(t *testing.T) {
	rounds := 200
	if raceEnabled {
		rounds = 50
	}
	for round := range rounds {
		d, err := dispatcher.New(config{Keys: jobKeys, Handler: runJob, Workers: 2, MaxPending: 1 + round%50})
		require.NoError(t, err)
		var accepted, results, unfinished atomic.Int64
		count := dispatcher.OnDone(func(_ *job, err error) {
			results.Add(1)
			if errors.Is(err, dispatcher.ErrClosed) {
				unfinished.Add(1)
			}
		})
		var producers sync.WaitGroup
		for p := range 4 {
			producers.Go(func() {
				for {
					var err error
					n := 1
					switch j := newJob("", nil, "k"); p {
					case 0:
						err = d.TrySubmit(t.Context(), j, count)
					case 1:
						n, err = d.SubmitBatch(context.Background(), []*job{j, j, j}, count)
						accepted.Add(int64(n))
						n = 0
					default:
						err = d.Submit(context.Background(), j, count)
					}
					if err == nil {
						accepted.Add(int64(n))
					} else if errors.Is(err, dispatcher.ErrClosed) {
						return
					}
				}
			})
		}
		for accepted.Load() < int64(round%7*50) {
			runtime.Gosched()
		}
		r, err := d.Shutdown(context.Background())
		require.NoError(t, err)
		producers.Wait()
		require.Equal(t, accepted.Load(), results.Load())
		require.Equal(t, int64(len(r.Unfinished)), unfinished.Load())
		require.Equal(t, uint64(accepted.Load()), d.Stats().Accepted)
	}
}
