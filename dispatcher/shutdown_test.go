package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/pause"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestShutdown: three seconds for a handler that needs one, one that needs ten
// and 200 messages behind them.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 2, MaxAttempts: 5, Failure: dispatcher.Park})
		var mu sync.Mutex
		results := make(map[string]error)
		var starts int
		begun := time.Now()
		done := dispatcher.OnDone(func(j *job, err error) {
			mu.Lock()
			defer mu.Unlock()
			require.NotContains(t, results, j.name)
			results[j.name] = err
		})
		require.NoError(t, d.Submit(t.Context(), newJob("short", takes(time.Second, nil), "a"), done))
		require.NoError(t, d.Submit(t.Context(), newJob("long", func(ctx context.Context) error {
			err := pause.For(ctx, 10*time.Second)
			require.Equal(t, 2500*time.Millisecond, time.Since(begun), "only near the limit")
			return err
		}, "b"), done))
		for i := range 200 {
			require.NoError(t, d.Submit(t.Context(), newJob(fmt.Sprint("q", i), func(context.Context) error { starts++; return nil }, "a", "b"), done))
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		r, err := d.Shutdown(ctx)
		require.NoError(t, err)
		require.Equal(t, 2500*time.Millisecond, time.Since(begun))
		require.Zero(t, starts)
		require.Empty(t, r.Running)
		require.Len(t, r.Unfinished, 201)
		require.Equal(t, "long", r.Unfinished[0].Message.name)
		require.Zero(t, r.Unfinished[0].Attempts, "a shutdown is not an attempt")
		require.Empty(t, d.Parked(), "and parks nothing")
		for i, l := range r.Unfinished[1:] {
			require.Equal(t, fmt.Sprint("q", i), l.Message.name)
			require.ErrorIs(t, results[l.Message.name], dispatcher.ErrClosed)
		}
		require.NoError(t, results["short"])
		require.ErrorIs(t, results["long"], dispatcher.ErrClosed)
		require.Len(t, results, 202)
	})
}

// TestLateHandler: a handler that does not listen keeps its goroutine after
// Shutdown has returned, completes as usual, and then nothing is left. What
// waited for it has been given back already and is not touched again.
func TestLateHandler(t *testing.T) {
	for name, ends := range map[string]error{"succeeds": nil, "fails": errBoom, "widens": dispatcher.Widen(requests("b")...), "permanent": dispatcher.Permanent(errBoom)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := start(t, config{Workers: 2, MaxAttempts: 3, Failure: dispatcher.Park})
				late, err := d.Go(t.Context(), newJob("late", takes(time.Minute, ends), "a"))
				require.NoError(t, err)
				var behind []*dispatcher.Ticket
				for range 3 {
					ticket, err := d.Go(t.Context(), newJob("behind", nil, "a"))
					require.NoError(t, err)
					behind = append(behind, ticket)
				}
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGiveUp)
				defer cancel()
				synctest.Wait()
				r, err := d.Shutdown(ctx)
				require.ErrorIs(t, err, dispatcher.ErrUnfinished)
				require.ErrorIs(t, err, errGiveUp)
				require.ErrorContains(t, err, "1 messages: [a]")
				require.Equal(t, []string{"late"}, names(r.Running))
				require.Equal(t, dispatcher.StateRunning, r.Running[0].State)
				require.Equal(t, []string{"behind", "behind", "behind"}, names(r.Unfinished))
				for _, ticket := range behind {
					require.ErrorIs(t, ticket.Err(), dispatcher.ErrClosed)
				}
				require.NoError(t, late.Err(), "no result yet")

				// Again, with a limit that is too short, and then without one.
				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				r, err = d.Shutdown(ctx)
				require.ErrorIs(t, err, dispatcher.ErrUnfinished)
				require.Empty(t, r.Unfinished)
				require.Equal(t, []string{"late"}, names(r.Running))
				require.NoError(t, d.Close())
				if ends == nil {
					require.NoError(t, late.Wait(t.Context()))
				} else {
					require.ErrorIs(t, late.Wait(t.Context()), dispatcher.ErrClosed)
				}
				require.Empty(t, d.Snapshot().Messages)
				s := d.Stats()
				require.Zero(t, s.Queued+s.Waiting+s.Ready+s.Running+s.Backoff+s.Parked+s.Behind)
			})
		})
	}
}

// TestShutdownInEveryState: one message in each state, in order of arrival.
func TestShutdownInEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{
			Workers: 2, Policy: dispatcher.LookAhead(1), MaxAttempts: 2,
			Backoff:    dispatcher.Backoff{Initial: time.Hour},
			FailureFor: func(*job, error) dispatcher.FailurePolicy { return dispatcher.Park },
		})
		submit(t, d, newJob("backoff", takes(0, errBoom), "r"))
		submit(t, d, newJob("parked", takes(0, dispatcher.Permanent(errBoom)), "p"))
		synctest.Wait()
		submit(t, d, newJob("stalled", nil, "p"))
		submit(t, d, newJob("running", takes(time.Second, nil), "a"), newJob("running", takes(time.Second, nil), "b"))
		synctest.Wait()
		submit(t, d, newJob("waiting", nil, "r"), newJob("ready?", nil, "c"))
		synctest.Wait()
		r, err := d.Shutdown(t.Context())
		require.NoError(t, err)
		var states []string
		for _, l := range r.Unfinished {
			states = append(states, fmt.Sprint(l.Message.name, " ", l.State, " ", l.Attempts))
		}
		require.Equal(t, []string{"backoff backoff 1", "parked parked 1", "stalled waiting 0", "waiting queued 0", "ready? queued 0"}, states)
		require.ErrorIs(t, r.Unfinished[0].Err, errBoom)
		require.Equal(t, requests("p"), r.Unfinished[1].Claim)
		require.Zero(t, d.Stats().Queued)
		require.ErrorIs(t, d.Err(), dispatcher.ErrClosed)
	})
}

// TestShutdownByCancel: a context without deadline that is cancelled.
func TestShutdownByCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 2})
		submit(t, d, newJob("obeys", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
		submit(t, d, newJob("does not", takes(time.Hour, nil)))
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errGiveUp) })
		begun := time.Now()
		r, err := d.Shutdown(ctx)
		require.Equal(t, time.Second, time.Since(begun))
		require.ErrorIs(t, err, errGiveUp)
		require.Contains(t, names(r.Running), "does not")
		synctest.Wait()
		require.Equal(t, 1, d.Stats().Running)
	})
}

func TestCloseNamesWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1})
		submit(t, d, newJob("", takes(time.Second, nil), "first"))
		synctest.Wait()
		for i := range 12 {
			submit(t, d, newJob("", nil, fmt.Sprint("left", i)))
		}
		err := d.Close()
		require.ErrorIs(t, err, dispatcher.ErrUnfinished)
		require.ErrorContains(t, err, "12 messages: [left0], [left1], [left2]")
		require.ErrorContains(t, err, " ...")
		require.NoError(t, d.Close())
	})
}

// TestManyShutdowns: at once, with a drainer and operators.
func TestManyShutdowns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 2, Failure: dispatcher.Park})
		submit(t, d, newJob("bad", takes(0, errBoom), "k"))
		synctest.Wait()
		submit(t, d, newJob("slow", takes(time.Second, nil), "s"), newJob("behind", nil, "k"), newJob("queued", nil, "s"))
		var all sync.WaitGroup
		var mu sync.Mutex
		unfinished := 0
		skipped := false
		for range 5 {
			all.Go(func() {
				r, err := d.Shutdown(t.Context())
				require.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				unfinished += len(r.Unfinished)
			})
			all.Go(func() {
				err := d.Drain(t.Context())
				require.True(t, err == nil || errors.Is(err, dispatcher.ErrClosed), "%v", err)
			})
			all.Go(func() {
				err := d.Skip(t.Context(), 1)
				mu.Lock()
				defer mu.Unlock()
				skipped = skipped || err == nil
			})
		}
		all.Wait()
		s := d.Stats()
		require.EqualValues(t, 4, uint64(unfinished)+s.Succeeded+s.Failed)
		require.Equal(t, skipped, s.Failed == 1)
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 2, MaxAttempts: 2, Backoff: dispatcher.Backoff{Initial: time.Minute, Jitter: -1}})
		drain(t, d) // nothing to do
		begun := time.Now()
		submit(t, d, newJob("", takes(time.Second, errBoom), "k"), newJob("", takes(time.Second, nil), "k"))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second/2, errGiveUp)
		defer cancel()
		require.ErrorIs(t, d.Drain(ctx), errGiveUp)
		var drainers sync.WaitGroup
		for range 3 {
			drainers.Go(func() {
				drain(t, d)
				require.Equal(t, time.Minute+3*time.Second, time.Since(begun))
			})
		}
		drainers.Wait()

		// While others submit it waits for a moment without work.
		stop := make(chan struct{})
		go func() {
			defer close(stop)
			for range 100 {
				submit(t, d, newJob("", takes(time.Second, nil), "k"))
				time.Sleep(time.Second - time.Millisecond)
			}
		}()
		synctest.Wait()
		begun = time.Now()
		drain(t, d)
		require.Greater(t, time.Since(begun), 99*time.Second)
		<-stop
	})
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1})
		submit(t, d, newJob("", takes(time.Second, nil), "k"), newJob("", nil, "k"))
		synctest.Wait()
		drained := make(chan error, 1)
		go func() { drained <- d.Drain(context.Background()) }()
		synctest.Wait()
		require.Error(t, d.Close())
		require.ErrorIs(t, <-drained, dispatcher.ErrClosed)
		require.NoError(t, d.Drain(t.Context()), "nothing is left")
	})
}

// TestNestedWaiting: a handler that waits for the dispatcher would wait for
// itself.
func TestNestedWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d *dispatcher.Dispatcher[int]
		d, err := dispatcher.New(dispatcher.Config[int]{
			Keys: func(int, *lockkeys.Claim) error { return nil },
			Handler: func(ctx context.Context, _ int) error {
				_, err := d.Shutdown(ctx)
				require.ErrorIs(t, err, dispatcher.ErrNested)
				require.ErrorIs(t, d.Drain(ctx), dispatcher.ErrNested)
				return d.Do(ctx, 2)
			},
		})
		require.NoError(t, err)
		require.ErrorIs(t, d.Do(t.Context(), 1), dispatcher.ErrNested)
		require.NoError(t, d.Close())
	})
}
