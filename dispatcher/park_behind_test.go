package dispatcher_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestBehindOneThatWidens: a message that widens and comes to wait for a
// parked one takes with it what waits for it.
func TestBehindOneThatWidens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 4, Failure: dispatcher.Park})
		submit(t, d, newJob("bad", takes(0, errBoom), "z"))
		synctest.Wait()
		tries := 0
		submit(t, d, newJob("wide", func(context.Context) error {
			if tries++; tries == 1 {
				time.Sleep(time.Second)
				return dispatcher.Widen(requests("z")...)
			}
			return nil
		}, "c"))
		submit(t, d, newJob("holds", takes(time.Minute, nil), "a"))
		synctest.Wait()
		submit(t, d, newJob("waits for both", nil, "a", "c"))
		begun := time.Now()
		drain(t, d)
		require.Equal(t, time.Minute, time.Since(begun))
		require.Equal(t, 2, d.Stats().Behind)
		require.NoError(t, d.Skip(t.Context(), 1))
		drain(t, d)
		require.EqualValues(t, 3, d.Stats().Succeeded)
	})
}

// TestDropWhatIsBehindTwo: given up with one of the parked messages it was
// behind, a message leaves nothing behind at the other.
func TestDropWhatIsBehindTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 2, Failure: dispatcher.Park, MaxParked: 3})
		for range 50 {
			submit(t, d, newJob("bad", takes(0, errBoom), "a"), newJob("bad", takes(0, errBoom), "b"))
			synctest.Wait()
			submit(t, d, newJob("behind both", nil, "a", "b"))
			synctest.Wait()
			require.Equal(t, 1, d.Stats().Behind)
			parked := d.Parked()
			require.NoError(t, d.Drop(t.Context(), parked[0].ID))
			require.Zero(t, d.Stats().Behind)
			require.NoError(t, d.Drop(t.Context(), parked[1].ID))
			drain(t, d)
		}
		require.EqualValues(t, 150, d.Stats().Failed)
	})
}

// TestShutdownWhileDeadLettering: a message without keys, and so without an
// attempt, that a shutdown finds on a worker.
func TestShutdownWhileDeadLettering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{
			Keys: func(*job, *lockkeys.Claim) error { return errBoom },
			DeadLetter: func(ctx context.Context, _ *job, _ error) error {
				<-ctx.Done()
				time.Sleep(time.Minute)
				return nil
			},
		})
		ticket, err := d.Go(t.Context(), newJob("", nil))
		require.NoError(t, err)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := d.Shutdown(ctx)
		require.ErrorIs(t, err, dispatcher.ErrUnfinished)
		require.Len(t, r.Running, 1)
		require.Zero(t, r.Running[0].Attempts)
		require.ErrorIs(t, ticket.Wait(t.Context()), errBoom)
	})
}

// TestDropStartsWhatItConsiders: to know what conflicts, Drop considers all that
// is queued. What can start because of that does so at once, and not only when
// all who are given up have been told.
func TestDropStartsWhatItConsiders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 3, Failure: dispatcher.Park, Policy: dispatcher.HeadOnly()})
		slow := dispatcher.OnDone(func(*job, error) { time.Sleep(time.Minute) })
		require.NoError(t, d.Submit(t.Context(), newJob("bad", takes(0, errBoom), "k"), slow))
		synctest.Wait()
		submit(t, d, newJob("long", takes(10*time.Minute, nil), "r"), newJob("blocked", nil, "r"))
		var started atomic.Int32
		for range 2 {
			submit(t, d, newJob("unrelated", func(context.Context) error {
				started.Add(1)
				return nil
			}, "u"))
		}
		synctest.Wait()
		require.Zero(t, started.Load(), "the head is blocked")
		go func() { _ = d.Drop(t.Context(), 1) }()
		synctest.Wait()
		require.EqualValues(t, 2, started.Load())
		drain(t, d)
	})
}

// TestDropBesideOthers: while those who are given up are being told, others may
// release, widen, fail and be resumed with keys that conflict with theirs.
func TestDropBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 8, Failure: dispatcher.Park, MaxAttempts: 2, Backoff: dispatcher.Backoff{Initial: time.Second, Jitter: -1}})
		var mu sync.Mutex
		var results []string
		put := func(name string, run func(context.Context) error, keys ...string) {
			require.NoError(t, d.Submit(t.Context(), newJob(name, run, keys...), dispatcher.OnDone(func(j *job, err error) {
				if errors.Is(err, dispatcher.ErrSkipped) {
					name += " skipped"
					time.Sleep(10 * time.Second)
				}
				mu.Lock()
				defer mu.Unlock()
				results = append(results, name)
			})))
			synctest.Wait()
		}
		tries := 0
		put("other", takes(0, dispatcher.Permanent(errBoom)), "p")
		put("bad", takes(0, dispatcher.Permanent(errBoom)), "k")
		put("releases", func(ctx context.Context) error {
			time.Sleep(5 * time.Second)
			require.NoError(t, dispatcher.Release(ctx, key("a/x")))
			time.Sleep(5 * time.Second)
			require.NoError(t, dispatcher.Release(ctx, key("a/y/z")))
			time.Sleep(time.Second)
			return nil
		}, "a/x", "~a/y", "a/y/z", "~a/w")
		put("widens", func(context.Context) error {
			if tries++; tries == 1 {
				time.Sleep(6 * time.Second)
				return dispatcher.Widen(requests("a", "p")...)
			}
			return nil
		}, "w")
		put("first", nil, "k", "a", "p")
		put("second", nil, "~k", "~a/y")
		put("third", nil, "a", "w")
		go func() { _ = d.Drop(t.Context(), 2) }()
		time.Sleep(12 * time.Second)
		require.NoError(t, d.Resume(t.Context(), 1)) // it fails again
		time.Sleep(time.Second)
		require.NoError(t, d.Skip(t.Context(), 1))
		drain(t, d)
		require.NoError(t, d.Do(t.Context(), newJob("afterwards", nil, "/")))
		require.Equal(t, []string{"bad skipped", "releases", "first skipped", "other skipped", "widens", "second skipped", "third"}, results)
	})
}
