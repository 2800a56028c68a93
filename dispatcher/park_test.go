package dispatcher_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// TestFailingHalfDoesNotSlowTheOther: half of the keys always fail and are in
// back-off or parked; the other half runs at full pace, and what is behind
// the failing half uses up neither the window nor the queue.
func TestFailingHalfDoesNotSlowTheOther(t *testing.T) {
	for _, failure := range []dispatcher.FailurePolicy{dispatcher.DeadLetter, dispatcher.Park} {
		t.Run(failure.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := start(t, config{
					Workers: 4, Policy: dispatcher.LookAhead(200), MaxPending: 300, MaxAttempts: 3, Failure: failure,
					Backoff: dispatcher.Backoff{Initial: time.Second, Jitter: -1},
				})
				const n = 1000
				begun := time.Now()
				var mu sync.Mutex
				var last time.Time
				for i := range n {
					key := fmt.Sprint(i % 10)
					if i%2 == 0 && (failure == dispatcher.Park || i < 100) {
						submit(t, d, newJob("bad", takes(0, errBoom), "bad/"+key))
					} else {
						submit(t, d, newJob("good", func(context.Context) error {
							time.Sleep(10 * time.Millisecond)
							mu.Lock()
							defer mu.Unlock()
							last = time.Now()
							return nil
						}, "good"))
					}
					if i == 100 {
						time.Sleep(4 * time.Second) // until those are parked
						begun = time.Now()
					}
				}
				drain(t, d)
				if failure == dispatcher.Park {
					require.Len(t, d.Parked(), 5)
					require.Equal(t, 495, d.Stats().Behind)
					require.LessOrEqual(t, last.Sub(begun), 450*10*time.Millisecond)
				}
				require.Zero(t, d.Stats().Waiting)
				for _, p := range d.Parked() {
					require.NoError(t, d.Drop(t.Context(), p.ID))
				}
				require.NoError(t, d.Do(t.Context(), newJob("", nil, "/")))
			})
		})
	}
}

// TestBackoffDoesNotHoldOthers: 100 messages of one key behind one in a long
// back-off, and the window and the queue have room for them: the others flow.
func TestBackoffDoesNotHoldOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 2, MaxAttempts: 2, Backoff: dispatcher.Backoff{Initial: time.Minute, Jitter: -1}})
		tries := 0
		submit(t, d, newJob("", func(context.Context) error {
			if tries++; tries == 1 {
				return errBoom
			}
			return nil
		}, "k"))
		for range 99 {
			submit(t, d, newJob("", nil, "k"))
		}
		begun := time.Now()
		for i := range 1000 {
			submit(t, d, newJob("", takes(time.Millisecond, nil), fmt.Sprint(i)))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 99, d.Stats().Waiting)
		require.EqualValues(t, 1000, d.Stats().Succeeded)
		drain(t, d)
		require.Equal(t, time.Minute, time.Since(begun))
	})
}

// TestSlotsOfParkedMessages: whatever way a parked or stalled message ends,
// its slot comes back exactly once.
func TestSlotsOfParkedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 5
		d := start(t, config{Workers: 2, Failure: dispatcher.Park, MaxPending: slots, MaxPendingBytes: slots, Size: func(*job) int64 { return 1 }})
		for round := range 60 {
			submit(t, d, newJob("bad", takes(0, errBoom), "k"))
			for range 3 {
				submit(t, d, newJob("", nil, "k"))
			}
			synctest.Wait()
			id := d.Parked()[0].ID
			switch round % 4 {
			case 0:
				require.NoError(t, d.Skip(t.Context(), id))
			case 1:
				require.NoError(t, d.Drop(t.Context(), id))
			case 2:
				require.NoError(t, d.Resume(t.Context(), id))
				synctest.Wait()
				require.NoError(t, d.Resume(t.Context(), id))
				synctest.Wait()
				require.NoError(t, d.Skip(t.Context(), id))
			case 3:
				require.NoError(t, d.Resume(t.Context(), id))
				submit(t, d, newJob("", nil, "k"))
				synctest.Wait()
				require.NoError(t, d.Drop(t.Context(), id))
			}
			drain(t, d)
			for range slots {
				require.NoError(t, d.TrySubmit(t.Context(), newJob("", takes(time.Second, nil), "s")))
			}
			require.ErrorIs(t, d.TrySubmit(t.Context(), newJob("", nil)), dispatcher.ErrFull)
			drain(t, d)
		}
	})
}

// TestResumeWhileNewOnesArrive: what was parked comes first, in order, then
// the newer arrivals (with the attempts counted on).
func TestResumeWhileNewOnesArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 3, Failure: dispatcher.Park, MaxAttempts: 2, Backoff: dispatcher.Backoff{Initial: time.Millisecond, Jitter: -1}})
		mended := false
		var order []string
		add := func(name string) {
			submit(t, d, newJob(name, func(ctx context.Context) error {
				time.Sleep(time.Millisecond)
				if name == "k2" && !mended {
					return errBoom
				}
				info, _ := dispatcher.InfoFrom(ctx)
				order = append(order, fmt.Sprint(name, "/", info.Attempt))
				return nil
			}, "k"))
		}
		for _, name := range []string{"k1", "k2", "k3", "k4"} {
			add(name)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		p := d.Parked()[0]
		require.Equal(t, 2, p.Attempts)
		require.Equal(t, 2, p.Behind)
		require.NoError(t, d.Resume(t.Context(), p.ID))
		require.ErrorIs(t, d.Resume(t.Context(), p.ID), dispatcher.ErrNotParked)
		require.ErrorIs(t, d.Skip(t.Context(), p.ID), dispatcher.ErrNotParked)
		add("k5")
		time.Sleep(time.Second)
		synctest.Wait()
		p = d.Parked()[0]
		require.Equal(t, 4, p.Attempts)
		require.Equal(t, 3, p.Behind)
		require.Equal(t, []string{"k1/1"}, order)
		mended = true
		require.NoError(t, d.Resume(t.Context(), p.ID))
		add("k6")
		drain(t, d)
		require.Equal(t, []string{"k1/1", "k2/5", "k3/1", "k4/1", "k5/1", "k6/1"}, order)
	})
}

// TestTwoParkedMessages: a message behind both goes on when both are gone, and
// one that is behind a message which waits for a parked one is behind it too.
func TestTwoParkedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 4, Failure: dispatcher.Park})
		submit(t, d, newJob("bad a", takes(0, errBoom), "a"), newJob("bad b", takes(0, errBoom), "b"))
		synctest.Wait()
		var (
			mu    sync.Mutex
			order []string
		)
		log := func(name string) func(context.Context) error {
			return func(context.Context) error {
				mu.Lock() // "c" and "b" run side by side
				defer mu.Unlock()
				order = append(order, name)
				return nil
			}
		}
		submit(t, d, newJob("ab", log("ab"), "a", "b", "c"), newJob("c", log("c"), "c"), newJob("b", log("b"), "b"))
		drain(t, d)
		require.Equal(t, 3, d.Stats().Behind)
		require.NoError(t, d.Skip(t.Context(), 1))
		drain(t, d)
		require.Equal(t, 3, d.Stats().Behind)
		require.Empty(t, order)
		require.Equal(t, 3, d.Parked()[0].Behind)
		require.NoError(t, d.Skip(t.Context(), 2))
		drain(t, d)
		require.ElementsMatch(t, []string{"ab", "c", "b"}, order)
		require.Equal(t, "ab", order[0])
	})
}

// TestNotBehindALaterOne: a message is not behind a parked one because a later
// message, with which it conflicts, is.
func TestNotBehindALaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 4, Failure: dispatcher.Park})
		submit(t, d, newJob("bad", takes(0, errBoom), "p"), newJob("bad later", takes(time.Second, errBoom), "q"))
		synctest.Wait()
		submit(t, d, newJob("holds", takes(time.Hour, nil), "a"))
		submit(t, d, newJob("waits", nil, "a"))      // for "holds" alone
		submit(t, d, newJob("later", nil, "a", "p")) // is behind "bad"
		submit(t, d, newJob("behind q", nil, "q"))   // will be behind "bad later"
		time.Sleep(time.Minute)                      // which is parked now
		synctest.Wait()
		stalled := make(map[string]bool)
		for _, m := range d.Snapshot().Messages {
			stalled[m.Message.name] = m.Stalled
		}
		require.True(t, stalled["later"])
		require.True(t, stalled["behind q"])
		require.False(t, stalled["waits"])
		require.Equal(t, 1, d.Stats().Waiting)
		begun := time.Now()
		drain(t, d)
		require.Equal(t, 59*time.Minute, time.Since(begun), "there was something to wait for")
	})
}

// TestDrainEndsAtParked: the last message turns out to be behind a parked one
// only when it is considered: after Drain has begun to wait.
func TestDrainEndsAtParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1, Failure: dispatcher.Park, MaxAttempts: 2, Backoff: dispatcher.Backoff{Initial: time.Second, Jitter: -1}})
		submit(t, d, newJob("bad", takes(0, dispatcher.Permanent(errBoom)), "k"))
		synctest.Wait()
		submit(t, d, newJob("other", takes(time.Second, nil), "o"))
		submit(t, d, newJob("behind", nil, "k"))
		drain(t, d)

		// It gave a key back which a parked message has now, and needs it again.
		submit(t, d, newJob("gives back", func(ctx context.Context) error {
			require.NoError(t, dispatcher.Release(ctx, requests("a")[0].Key))
			time.Sleep(time.Minute)
			return errBoom
		}, "a", "b"))
		submit(t, d, newJob("takes it", takes(0, dispatcher.Permanent(errBoom)), "a"))
		drain(t, d)
		require.Len(t, d.Parked(), 2)
		require.Equal(t, 2, d.Stats().Behind)
	})
}

// TestResumeWhenStopped: nothing starts any more, and an operator is not told that it does;
// but can still give the message up.
func TestResumeWhenStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{FailureFor: func(j *job, _ error) dispatcher.FailurePolicy {
			if j.name == "last" {
				return dispatcher.Stop
			}
			return dispatcher.Park
		}})
		submit(t, d, newJob("", takes(0, errBoom), "a"), newJob("", takes(0, errBoom), "b"))
		drain(t, d)
		submit(t, d, newJob("last", takes(0, errBoom), "c"))
		synctest.Wait()
		require.ErrorIs(t, d.Resume(t.Context(), 1), dispatcher.ErrStopped)
		require.ErrorIs(t, d.Resume(t.Context(), 7), dispatcher.ErrStopped)
		require.Len(t, d.Parked(), 2)
		require.NoError(t, d.Skip(t.Context(), 2))
		require.Len(t, d.Parked(), 1)
	})
}
