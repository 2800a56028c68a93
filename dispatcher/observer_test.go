package dispatcher_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestObserverOrder: events come in the order in which things happened, each
// message's life makes sense, and all have come when Shutdown returns.
func TestObserverOrder(t *testing.T) {
	var events []event
	d, err := dispatcher.New(config{
		Keys: jobKeys, Handler: runJob, Workers: 4, MaxAttempts: 2,
		Backoff:  dispatcher.Backoff{Initial: time.Nanosecond},
		Observer: func(e event) { events = append(events, e) },
	})
	require.NoError(t, err)
	const n = 2000
	for i := range n {
		tries := 0
		submit(t, d, newJob("", func(context.Context) error {
			if tries++; tries == 1 && i%10 == 0 {
				return errBoom
			}
			return nil
		}, fmt.Sprint(i%7)))
	}
	require.NoError(t, d.Drain(t.Context()))
	require.NoError(t, d.Close())
	var queued uint64
	holder := make(map[string]uint64) // by key
	for i, e := range events {
		if i > 0 {
			require.False(t, e.Time.Before(events[i-1].Time))
		}
		key := e.Claim[0].Key.String()
		switch e.Kind {
		case dispatcher.Queued:
			require.Equal(t, queued+1, e.ID)
			queued = e.ID
		case dispatcher.Blocked:
			require.Less(t, e.Blocker, e.ID)
			require.Equal(t, key, e.Key.String())
		case dispatcher.Started:
			require.Contains(t, []uint64{0, e.ID}, holder[key])
			require.GreaterOrEqual(t, e.Worker, 0)
			holder[key] = e.ID
		case dispatcher.Retried:
			require.Equal(t, 1, e.Attempt)
			require.ErrorIs(t, e.Err, errBoom)
		case dispatcher.Finished:
			require.Equal(t, e.ID, holder[key])
			require.NoError(t, e.Err)
			holder[key] = 0
		}
	}
	counts := make(map[dispatcher.EventKind]int)
	for _, e := range events {
		counts[e.Kind]++
	}
	require.Equal(t, n, counts[dispatcher.Queued])
	require.Equal(t, n+n/10, counts[dispatcher.Started])
	require.Equal(t, n/10, counts[dispatcher.Retried])
	require.Equal(t, n, counts[dispatcher.Finished])
}

// TestSlowObserver: the dispatcher waits for it when some thousands of events
// are outstanding, and no event is lost.
func TestSlowObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		var seen atomic.Int64
		d := start(t, config{
			Workers: 3, MaxPending: 100_000,
			Observer: func(event) {
				<-stuck
				seen.Add(1)
			},
		})
		for i := range 3000 {
			submit(t, d, newJob("", nil, fmt.Sprint(i%10)))
			synctest.Wait()
		}
		s := d.Stats()
		require.Less(t, s.Succeeded, uint64(3000))
		require.Greater(t, s.Succeeded, uint64(500))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, d.Drain(ctx), context.DeadlineExceeded)
		close(stuck)
		drain(t, d)
		require.NoError(t, d.Close())
		s = d.Stats()
		require.EqualValues(t, 3000, s.Succeeded)
		require.GreaterOrEqual(t, seen.Load(), int64(9000))
	})
	// A shutdown ends at its deadline even if the observer never returns.
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		d := start(t, config{Observer: func(event) { <-stuck }})
		submit(t, d, newJob("", nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err := d.Shutdown(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begun))
		close(stuck)
		require.NoError(t, d.Close())
	})
}

// TestObserverMisbehaves: a panic or runtime.Goexit loses nothing but the
// observer's own work.
func TestObserverMisbehaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		seen := 0
		d := start(t, config{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Observer: func(event) {
				switch seen++; seen % 3 {
				case 1:
					panic("observer")
				case 2:
					runtime.Goexit()
				}
			},
		})
		for range 5000 { // more than may be outstanding
			require.NoError(t, d.Do(t.Context(), newJob("", nil)))
		}
		require.NoError(t, d.Close())
		require.Equal(t, 15_000, seen)
		require.Contains(t, log.String(), "observer failed")
	})
}

// TestObserverMayAct: it may call the methods that do not wait.
func TestObserverMayAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d *disp
		ready := make(chan struct{})
		d = start(t, config{
			Workers: 1, Failure: dispatcher.Park,
			Observer: func(e event) {
				<-ready
				switch e.Kind {
				case dispatcher.Parked:
					_ = d.Parked()
					require.NoError(t, d.Skip(t.Context(), e.ID))
				case dispatcher.Finished:
					_, _ = d.Snapshot(), d.Stats()
					if e.Message.name == "bad" {
						require.NoError(t, d.TrySubmit(t.Context(), newJob("good", nil, "k")))
					}
				}
			},
		})
		close(ready)
		require.ErrorIs(t, d.Do(t.Context(), newJob("bad", takes(0, errBoom), "k")), dispatcher.ErrSkipped)
		synctest.Wait()
		drain(t, d)
		require.EqualValues(t, 1, d.Stats().Succeeded)
	})
}

// TestEventsCarryTheClaim: as it is from that event on.
func TestEventsCarryTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims := make(map[dispatcher.EventKind][]lockkeys.Request)
		var kinds []dispatcher.EventKind
		d := start(t, config{
			Workers: 2, MaxAttempts: 2, Backoff: dispatcher.Backoff{Initial: time.Second, Jitter: -1},
			Observer: func(e event) {
				if e.Message.name == "it" {
					kinds = append(kinds, e.Kind)
					claims[e.Kind] = e.Claim
				}
			},
		})
		submit(t, d, newJob("holds b", takes(time.Minute, nil), "b"))
		tries := 0
		submit(t, d, newJob("it", func(ctx context.Context) error {
			switch tries++; tries {
			case 1:
				return dispatcher.Widen(requests("b", "~c")...)
			case 2:
				require.NoError(t, dispatcher.Release(ctx, key("a"), key("c")))
				return errBoom
			}
			return nil
		}, "a"))
		drain(t, d)
		require.NoError(t, d.Close())
		require.Equal(t, []dispatcher.EventKind{
			dispatcher.Queued, dispatcher.Started, dispatcher.Widened, dispatcher.Blocked, dispatcher.Started,
			dispatcher.Released, dispatcher.Released, dispatcher.Retried, dispatcher.Started, dispatcher.Finished,
		}, kinds)
		require.Equal(t, requests("a"), claims[dispatcher.Queued])
		require.Equal(t, requests("a", "b", "~c"), claims[dispatcher.Widened])
		require.Equal(t, requests("a", "b", "~c"), claims[dispatcher.Blocked])
		require.Equal(t, requests("b"), claims[dispatcher.Released])
		require.Equal(t, requests("a", "b", "~c"), claims[dispatcher.Finished])
	})
}

// TestObserverOfWhatIsGivenUp: a message that an operator gives up while the dispatcher shuts
// down has its last event, and Shutdown waits for that.
func TestObserverOfWhatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kinds []dispatcher.EventKind
		d := start(t, config{Failure: dispatcher.Park, Observer: func(e event) { kinds = append(kinds, e.Kind) }})
		told := make(chan struct{})
		require.NoError(t, d.Submit(t.Context(), newJob("", takes(0, errBoom), "a"), dispatcher.OnDone(func(*job, error) { <-told })))
		drain(t, d)
		skipped := make(chan error)
		go func() { skipped <- d.Skip(t.Context(), 1) }()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- d.Close() }()
		synctest.Wait()
		close(told)
		require.NoError(t, <-skipped)
		require.NoError(t, <-closed)
		require.Equal(t, []dispatcher.EventKind{dispatcher.Queued, dispatcher.Started, dispatcher.Parked, dispatcher.Finished}, kinds)
	})
}
