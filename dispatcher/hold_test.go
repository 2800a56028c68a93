package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// holding is a job that is held by each attempt. What finishes it is sent, with
// the context of the attempt.
func holding(name string, keys ...string) (j *job, holds chan held) {
	holds = make(chan held, 8)
	return newJob(name, func(ctx context.Context) error {
		finish, err := dispatcher.Hold(ctx)
		holds <- held{ctx, finish}
		return err
	}, keys...), holds
}

type held struct {
	ctx    context.Context
	finish func(error)
}

// TestHold: a message that is held has its keys and no worker, and the first of
// many calls of finish decides.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1, Observer: func(event) {}})
		first, holds := holding("first", "k")
		ticket, err := d.Go(t.Context(), first)
		require.NoError(t, err)
		ran := false
		submit(t, d, newJob("behind", func(context.Context) error { ran = true; return nil }, "k/below"))
		h := <-holds
		synctest.Wait()
		for i := range 100 {
			require.NoError(t, d.Do(t.Context(), newJob("other", nil, fmt.Sprint("o", i))), "the only worker is free")
		}
		require.False(t, ran)
		stats := d.Stats()
		require.Equal(t, [3]int{1, 0, 1}, [3]int{stats.Held, stats.Running, stats.Waiting})
		info := d.Snapshot().Messages[0]
		require.Equal(t, dispatcher.StateHeld, info.State)
		require.Equal(t, -1, info.Worker)
		require.Equal(t, time.Now(), info.Since)
		require.NoError(t, ticket.Err())

		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() { h.finish([]error{nil, errBoom}[i%2]) })
		}
		all.Wait()
		drain(t, d)
		result := ticket.Err()
		h.finish(nil)
		h.finish(errStep)
		require.Equal(t, result, ticket.Err())
		require.True(t, ran)
		require.EqualValues(t, 102, d.Stats().Succeeded+d.Stats().Failed)
	})
}

// TestHoldEndsLikeAHandler: finish(err) is what the handler's return of err is.
func TestHoldEndsLikeAHandler(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		attempts int // begun before the first message is parked or has ended
		parked   bool
	}{
		"succeeds":             {nil, 1, false},
		"fails":                {errBoom, 3, true},
		"fails for good":       {dispatcher.Permanent(errBoom), 1, true},
		"widens to what it is": {dispatcher.Widen(requests("k")...), 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := start(t, config{Workers: 2, MaxAttempts: 3, Failure: dispatcher.Park})
				first, holds := holding("first", "k")
				submit(t, d, first)
				for range c.attempts {
					h := <-holds
					time.Sleep(time.Second)
					h.finish(c.err)
				}
				synctest.Wait()
				require.Empty(t, holds)
				if !c.parked {
					require.EqualValues(t, 1, d.Stats().Succeeded)
					return
				}
				parked := d.Parked()
				require.Len(t, parked, 1)
				require.ErrorIs(t, parked[0].Err, c.err)
				require.Equal(t, c.attempts, parked[0].Attempts)
				require.NoError(t, d.Resume(t.Context(), parked[0].ID))
				(<-holds).finish(nil)
				drain(t, d)
			})
		})
	}
}

// TestHoldWidens: a message that is held can ask for more keys as well.
func TestHoldWidens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1})
		first, holds := holding("first", "k")
		other, others := holding("other", "l")
		submit(t, d, first, other)
		h := <-holds
		synctest.Wait() // until the other one is held too
		h.finish(dispatcher.Widen(requests("l")...))
		synctest.Wait()
		require.Empty(t, holds, "the other one has l")
		(<-others).finish(nil)
		h = <-holds
		require.Equal(t, requests("k", "l"), d.Snapshot().Messages[0].Claim)
		info, _ := dispatcher.InfoFrom(h.ctx)
		require.Equal(t, 1, info.Attempt)
		h.finish(nil)
		drain(t, d)
	})
}

// TestHoldFinishedEarly: finish before the handler has returned takes effect
// when it does, and the context lives until then.
func TestHoldFinishedEarly(t *testing.T) {
	for _, result := range []error{nil, errBoom} {
		synctest.Test(t, func(t *testing.T) {
			var kinds []string
			d := start(t, config{Workers: 2, Observer: func(e event) { kinds = append(kinds, e.Kind.String()) }})
			begun := time.Now()
			err := d.Do(t.Context(), newJob("", func(ctx context.Context) error {
				finish, err := dispatcher.Hold(ctx)
				require.NoError(t, err)
				again, err := dispatcher.Hold(context.WithValue(ctx, errBoom, 1))
				require.NoError(t, err)
				again(result)
				finish(errStep)
				time.Sleep(time.Second)
				require.NoError(t, ctx.Err())
				return nil
			}, "k"))
			require.Equal(t, time.Second, time.Since(begun))
			require.ErrorIs(t, err, result)
			require.NotErrorIs(t, err, errStep)
			require.NoError(t, d.Close())
			require.Equal(t, []string{"queued", "started", "finished"}, kinds)
		})
	}
}

// TestHandlerFailsAfterHold: the attempt is over, whatever finish was told or is.
func TestHandlerFailsAfterHold(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error":  func() error { return errBoom },
		"panic":  func() error { panic(errBoom) },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " early=", early), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := start(t, config{Workers: 1, MaxAttempts: 2})
					var finishes []func(error)
					var ctxs []context.Context
					err := d.Do(t.Context(), newJob("", func(ctx context.Context) error {
						finish, err := dispatcher.Hold(ctx)
						require.NoError(t, err)
						if early {
							finish(nil)
						}
						finishes, ctxs = append(finishes, finish), append(ctxs, ctx)
						return fail()
					}, "k"))
					require.Error(t, err)
					require.EqualValues(t, 2, d.Stats().Started)
					for _, ctx := range ctxs {
						require.ErrorIs(t, ctx.Err(), context.Canceled)
					}
					// The worker runs another message in the same memory.
					other, holds := holding("other", "k")
					ticket, err := d.Go(t.Context(), other)
					require.NoError(t, err)
					h := <-holds
					synctest.Wait()
					for _, finish := range finishes {
						finish(errStep)
					}
					synctest.Wait()
					require.Equal(t, 1, d.Stats().Held)
					h.finish(nil)
					require.NoError(t, ticket.Wait(t.Context()))
				})
			})
		}
	}
}

// TestHoldTimeout: no message is held for ever. It fails with a typed error,
// what goes on elsewhere learns by the context, and what finishes it later does
// nothing to anybody.
func TestHoldTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		d := start(t, config{Workers: 1, HoldTimeout: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		begun := time.Now()
		first, holds := holding("first", "k")
		first.run = func(run func(context.Context) error) func(context.Context) error {
			return func(ctx context.Context) error { time.Sleep(time.Second); return run(ctx) }
		}(first.run)
		ticket, err := d.Go(t.Context(), first)
		require.NoError(t, err)
		h := <-holds
		derived, cancel := context.WithCancel(h.ctx)
		defer cancel()
		context.AfterFunc(derived, func() {
			require.Equal(t, time.Minute+time.Second, time.Since(begun), "from when the handler has returned")
			require.ErrorIs(t, context.Cause(derived), dispatcher.ErrHoldTimeout)
		})
		err = ticket.Wait(t.Context())
		require.ErrorIs(t, err, dispatcher.ErrHoldTimeout)
		require.ErrorContains(t, err, "1m0s")
		require.ErrorIs(t, derived.Err(), context.Canceled)
		require.Contains(t, log.String(), "held for longer than HoldTimeout")

		second, holds2 := holding("second", "k")
		submit(t, d, second)
		h2 := <-holds2
		synctest.Wait()
		h.finish(errBoom)
		require.Equal(t, 1, d.Stats().Held)
		h2.finish(nil)
		drain(t, d)
		require.EqualValues(t, 1, d.Stats().Succeeded)
		time.Sleep(time.Hour) // the timer does nothing any more
		require.EqualValues(t, 1, d.Stats().Succeeded)
	})
}

// TestContextOfHold: it lives until finish, and ends then; and as that of a
// handler with the time limit of an attempt, which finishes nothing.
func TestContextOfHold(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Hour, 10 * time.Second} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := start(t, config{Workers: 1, Timeout: timeout})
				first, holds := holding("first", "k")
				ticket, err := d.Go(t.Context(), first)
				require.NoError(t, err)
				h := <-holds
				derived, cancel := context.WithCancel(context.WithValue(h.ctx, errBoom, 1))
				defer cancel()
				require.NoError(t, d.Do(t.Context(), newJob("another of the worker", nil)))
				time.Sleep(30 * time.Second)
				synctest.Wait()
				late := timeout == 10*time.Second
				require.Equal(t, late, h.ctx.Err() != nil)
				require.Equal(t, late, derived.Err() != nil)
				require.Equal(t, 1, d.Stats().Held)
				_, limited := h.ctx.Deadline()
				require.Equal(t, timeout > 0, limited)
				info, ok := dispatcher.InfoFrom(derived)
				require.True(t, ok)
				require.Equal(t, dispatcher.Info{ID: 1, Attempt: 1}, info)

				h.finish(errBoom)
				synctest.Wait()
				require.Error(t, h.ctx.Err())
				require.Error(t, derived.Err())
				require.ErrorIs(t, ticket.Err(), errBoom)
				require.Equal(t, late, errors.Is(ticket.Err(), dispatcher.ErrTimeout))
			})
		})
	}
}

// TestHeldContextIsNested: with the context of a message that is held nobody
// waits for its dispatcher, nor gives keys back.
func TestHeldContextIsNested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1})
		first, holds := holding("first", "k")
		submit(t, d, first)
		h := <-holds
		synctest.Wait()
		require.ErrorIs(t, d.Do(h.ctx, newJob("", nil)), dispatcher.ErrNested)
		require.ErrorIs(t, d.Drain(h.ctx), dispatcher.ErrNested)
		require.ErrorIs(t, dispatcher.Release(h.ctx, key("k")), dispatcher.ErrNoHandler)
		_, err := dispatcher.Hold(h.ctx)
		require.ErrorIs(t, err, dispatcher.ErrNoHandler)
		h.finish(nil)
		drain(t, d)
		require.NoError(t, d.Do(context.WithoutCancel(h.ctx), newJob("", nil)), "it has ended")
	})
}

// TestHoldNeedsAHandler: it is refused anywhere else.
func TestHoldNeedsAHandler(t *testing.T) {
	_, err := dispatcher.Hold(t.Context())
	require.ErrorIs(t, err, dispatcher.ErrNoHandler)
	synctest.Test(t, func(t *testing.T) {
		var kept context.Context
		d := start(t, config{DeadLetter: func(ctx context.Context, _ *job, _ error) error {
			_, err := dispatcher.Hold(ctx)
			require.ErrorIs(t, err, dispatcher.ErrNoHandler)
			return nil
		}})
		require.Error(t, d.Do(t.Context(), newJob("", func(ctx context.Context) error { kept = ctx; return errBoom })))
		_, err := dispatcher.Hold(kept)
		require.ErrorIs(t, err, dispatcher.ErrNoHandler)

		b := start(t, config{BatchHandler: func(ctx context.Context, _ []*job) []error {
			_, err := dispatcher.Hold(ctx)
			require.ErrorIs(t, err, dispatcher.ErrNoHandler)
			require.ErrorContains(t, err, "BatchHandler")
			return nil
		}})
		require.NoError(t, b.Do(t.Context(), newJob("", nil)))
	})
}

// TestReleaseBeforeHold: the keys given back are taken again by the next attempt.
func TestReleaseBeforeHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1, MaxAttempts: 2})
		holds := make(chan held, 2)
		submit(t, d, newJob("", func(ctx context.Context) error {
			finish, err := dispatcher.Hold(ctx)
			require.NoError(t, err)
			require.NoError(t, dispatcher.Release(ctx, key("a")), "while the handler runs")
			holds <- held{ctx, finish}
			return nil
		}, "a", "b"))
		h := <-holds
		require.NoError(t, d.Do(t.Context(), newJob("", nil, "a")))
		require.Equal(t, requests("b"), d.Snapshot().Messages[0].Claim)
		h.finish(errBoom)
		(<-holds).finish(nil)
		drain(t, d)
	})
}

// TestCloseWaitsForHolds: it needs no worker that is busy, and no time limit.
func TestCloseWaitsForHolds(t *testing.T) {
	for name, c := range map[string]struct {
		finish time.Duration // 0 for never
		err    error
		takes  time.Duration
		left   bool
	}{
		"succeeds":         {time.Second, nil, time.Second, false},
		"fails":            {time.Second, errBoom, time.Second, true}, // to be tried again
		"is not finished":  {0, nil, time.Minute, true},
		"fails for good":   {time.Second, dispatcher.Permanent(errBoom), time.Second, false},
		"asks for further": {time.Second, dispatcher.Widen(requests("b")...), time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := start(t, config{Workers: 3, MaxAttempts: 2, HoldTimeout: time.Minute})
				first, holds := holding("first", "k")
				ticket, err := d.Go(t.Context(), first)
				require.NoError(t, err)
				h := <-holds
				synctest.Wait()
				if c.finish > 0 {
					time.AfterFunc(c.finish, func() { h.finish(c.err) })
				}
				begun := time.Now()
				err = d.Close()
				require.Equal(t, c.takes, time.Since(begun))
				if !c.left {
					require.NoError(t, err)
					require.ErrorIs(t, ticket.Err(), c.err)
					return
				}
				require.ErrorIs(t, err, dispatcher.ErrUnfinished)
				require.ErrorIs(t, ticket.Err(), dispatcher.ErrClosed)
			})
		})
	}
}

// TestShutdownGivesUpHolds: at its deadline it reports what is held, and that
// ends as usual when it is finished later, or held for too long.
func TestShutdownGivesUpHolds(t *testing.T) {
	for name, c := range map[string]struct {
		finish bool
		err    error
		result error
	}{
		"succeeds":        {true, nil, nil},
		"fails":           {true, errBoom, dispatcher.ErrClosed},
		"is not finished": {false, nil, dispatcher.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := start(t, config{Workers: 2, MaxAttempts: 2, HoldTimeout: time.Minute, CancelGrace: time.Second})
				first, holds := holding("first", "k")
				ticket, err := d.Go(t.Context(), first)
				require.NoError(t, err)
				behind, err := d.Go(t.Context(), newJob("behind", nil, "k"))
				require.NoError(t, err)
				h := <-holds
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				begun := time.Now()
				context.AfterFunc(h.ctx, func() { require.Equal(t, 9*time.Second, time.Since(begun)) })
				r, err := d.Shutdown(ctx)
				require.ErrorIs(t, err, dispatcher.ErrUnfinished)
				require.ErrorContains(t, err, "[k]")
				require.Equal(t, []string{"first"}, names(r.Running))
				require.Equal(t, dispatcher.StateHeld, r.Running[0].State)
				require.Zero(t, r.Running[0].Attempts)
				require.Equal(t, []string{"behind"}, names(r.Unfinished))
				require.ErrorIs(t, behind.Err(), dispatcher.ErrClosed)
				require.NoError(t, ticket.Err(), "no result yet")
				if c.finish {
					h.finish(c.err)
				}
				r, err = d.Shutdown(t.Context())
				require.NoError(t, err)
				require.Empty(t, r.Running)
				require.ErrorIs(t, ticket.Wait(t.Context()), c.result)
			})
		})
	}
}

// TestStopWhileHeld: nothing starts any more, and what is held can end.
func TestStopWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1, Failure: dispatcher.Stop})
		first, holds := holding("first", "k")
		ticket, err := d.Go(t.Context(), first)
		require.NoError(t, err)
		h := <-holds
		submit(t, d, newJob("stops", takes(0, errBoom), "s"), newJob("behind", nil, "k"))
		synctest.Wait()
		require.ErrorIs(t, d.Err(), dispatcher.ErrStopped)
		h.finish(nil)
		require.NoError(t, ticket.Wait(t.Context()))
		require.ErrorIs(t, d.Close(), dispatcher.ErrUnfinished)
	})
}

// TestManyHolds: more than there are workers, with all workers busy: each ends
// once, in order, and its slot comes back.
func TestManyHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		d := start(t, config{Workers: 2, MaxPending: n})
		var order []int
		var all sync.WaitGroup
		for i := range n {
			j := newJob("", func(ctx context.Context) error {
				finish, err := dispatcher.Hold(ctx)
				all.Go(func() {
					time.Sleep(time.Duration(i%7) * time.Millisecond)
					finish(nil)
				})
				return err
			}, fmt.Sprint("k", i%5))
			require.NoError(t, d.Submit(t.Context(), j, dispatcher.OnDone(func(*job, error) {
				if i%5 == 0 {
					order = append(order, i)
				}
			})))
		}
		drain(t, d)
		all.Wait()
		require.Len(t, order, n/5)
		require.IsIncreasing(t, order)
		for range n {
			require.NoError(t, d.TrySubmit(t.Context(), newJob("", takes(time.Second, nil))), "every slot has come back")
		}
	})
}
