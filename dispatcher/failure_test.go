package dispatcher_test

import (
	"bytes"
	"context"
	"errors"
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

// TestKeyFunctionFails: an error, a panic or a bad key fails the message by
// its policy, without an attempt, and disturbs nobody.
func TestKeyFunctionFails(t *testing.T) {
	_, badKey := lockkeys.New("client", "")
	keys := func(j *job, claim *lockkeys.Claim) error {
		claim.Add(j.keys...) // what is added before the error does not count
		switch j.name {
		case "error":
			return badKey
		case "panic":
			panic("no keys")
		}
		return nil
	}
	for _, failure := range []dispatcher.FailurePolicy{dispatcher.DeadLetter, dispatcher.Park, dispatcher.Stop} {
		for _, name := range []string{"error", "panic"} {
			t.Run(fmt.Sprint(failure, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var dead []error
					d := start(t, config{
						Keys: keys, Failure: failure, Workers: 2, MaxAttempts: 5,
						DeadLetter: func(_ context.Context, _ *job, err error) error {
							dead = append(dead, err)
							return nil
						},
					})
					submit(t, d, newJob("holds", takes(time.Second, nil), "k"))
					ran := false
					ticket, err := d.Go(t.Context(), newJob(name, func(context.Context) error { ran = true; return nil }, "k"))
					require.NoError(t, err)
					synctest.Wait()
					require.False(t, ran)
					s := d.Stats()
					require.Zero(t, s.Waiting, "it conflicts with nothing")
					check := func(err error) {
						var keyErr *dispatcher.KeyFuncError
						var failed *dispatcher.HandlerError
						var panicked *dispatcher.PanicError
						require.True(t, errors.As(err, &keyErr), "%v", err)
						require.True(t, errors.As(err, &failed))
						require.Zero(t, failed.Attempts)
						require.Equal(t, name == "error", errors.Is(err, lockkeys.ErrEmptySegment))
						require.Equal(t, name == "panic", errors.As(err, &panicked))
					}
					switch failure {
					case dispatcher.DeadLetter:
						require.Len(t, dead, 1)
						check(dead[0])
						check(ticket.Err())
					case dispatcher.Park:
						require.Len(t, d.Parked(), 1)
						check(d.Parked()[0].Err)
						// The function is not asked again.
						require.NoError(t, d.Resume(t.Context(), d.Parked()[0].ID))
						synctest.Wait()
						require.Len(t, d.Parked(), 1)
						require.NoError(t, d.Skip(t.Context(), d.Parked()[0].ID))
						check(ticket.Err())
						require.ErrorIs(t, ticket.Err(), dispatcher.ErrSkipped)
					case dispatcher.Stop:
						require.ErrorIs(t, d.Err(), dispatcher.ErrStopped)
						check(d.Err())
					}
				})
			})
		}
	}
}

func TestFailureFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		asked := 0
		d := start(t, config{
			Workers: 1, MaxAttempts: 2, Failure: dispatcher.Park, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Backoff: dispatcher.Backoff{Initial: time.Millisecond},
			FailureFor: func(j *job, err error) dispatcher.FailurePolicy {
				asked++
				switch j.name {
				case "panic":
					panic("undecided")
				case "exit":
					runtime.Goexit()
				case "timeout":
					return dispatcher.Stop
				case "unknown":
					return 99
				}
				return dispatcher.DeadLetter
			},
		})
		require.ErrorIs(t, d.Do(t.Context(), newJob("dead", takes(0, errBoom), "a")), errBoom)
		require.Equal(t, 1, asked, "once, when the attempts are used up")
		submit(t, d, newJob("panic", takes(0, errBoom), "p"), newJob("exit", takes(0, errBoom), "e"), newJob("unknown", takes(0, errBoom), "u"))
		drain(t, d)
		require.Len(t, d.Parked(), 3, "Failure applies where FailureFor gives no answer")
		require.Contains(t, log.String(), "undecided")
		require.Contains(t, log.String(), "FailurePolicy(99)")
		require.NoError(t, d.Do(t.Context(), newJob("", nil, "a")))
	})
}

func TestDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead []string
		d := start(t, config{
			Workers: 1,
			DeadLetter: func(ctx context.Context, j *job, err error) error {
				var failed *dispatcher.HandlerError
				require.True(t, errors.As(err, &failed))
				dead = append(dead, j.name)
				switch j.name {
				case "unwritable":
					return errors.New("disk full")
				case "panic":
					panic("disk gone")
				case "exit":
					runtime.Goexit()
				case "slow":
					time.Sleep(time.Second)
				}
				return nil
			},
		})
		// Its keys are held while it is dead-lettered.
		begun := time.Now()
		submit(t, d, newJob("slow", takes(0, errBoom), "s"))
		require.NoError(t, d.Do(t.Context(), newJob("after", nil, "s")))
		require.Equal(t, time.Second, time.Since(begun))

		for _, name := range []string{"unwritable", "panic", "exit"} {
			submit(t, d, newJob(name, takes(0, errBoom), name))
		}
		drain(t, d)
		parked := d.Parked()
		require.Len(t, parked, 3)
		for _, p := range parked {
			require.ErrorIs(t, p.Err, errBoom)
			require.ErrorContains(t, p.Err, "dead-lettering")
		}
		require.ErrorContains(t, parked[0].Err, "disk full")
		require.ErrorContains(t, parked[1].Err, "disk gone")
		require.ErrorIs(t, parked[2].Err, dispatcher.ErrGoexit)
		require.Equal(t, []string{"slow", "unwritable", "panic", "exit"}, dead)
		require.NoError(t, d.Do(t.Context(), newJob("the worker is there", nil)))
		for _, p := range parked {
			require.NoError(t, d.Skip(t.Context(), p.ID))
		}
	})
}

// TestPanicAndGoexit: both count as failed attempts, with the stack, and cost
// no worker.
func TestPanicAndGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1, MaxAttempts: 2})
		var panicked *dispatcher.PanicError
		err := d.Do(t.Context(), newJob("", func(context.Context) error { panic(errBoom) }, "k"))
		require.True(t, errors.As(err, &panicked))
		require.ErrorIs(t, err, errBoom)
		require.Equal(t, errBoom, panicked.Value)
		require.Contains(t, string(panicked.Stack), "failure_test.go")
		var failed *dispatcher.HandlerError
		require.True(t, errors.As(err, &failed))
		require.Equal(t, 2, failed.Attempts)

		for range 20 {
			err = d.Do(t.Context(), newJob("", func(context.Context) error { runtime.Goexit(); return nil }, "k"))
			require.ErrorIs(t, err, dispatcher.ErrGoexit)
		}
		err = d.Do(t.Context(), newJob("", func(context.Context) error {
			var none []error
			return none[len(t.Name())]
		}, "k"))
		var runtimeErr runtime.Error
		require.True(t, errors.As(err, &runtimeErr))
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 2, Timeout: time.Second})
		obeys := func(ctx context.Context) error {
			deadline, ok := ctx.Deadline()
			require.True(t, ok)
			require.Equal(t, time.Second, time.Until(deadline))
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), dispatcher.ErrTimeout)
			return ctx.Err()
		}
		begun := time.Now()
		err := d.Do(t.Context(), newJob("", obeys, "k"))
		require.ErrorIs(t, err, dispatcher.ErrTimeout)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begun))

		// One that does not obey keeps its keys until it returns.
		submit(t, d, newJob("", takes(time.Minute, nil), "k"))
		require.NoError(t, d.Do(t.Context(), newJob("", nil, "k")))
		require.Equal(t, time.Second+time.Minute, time.Since(begun))

		err = d.Do(t.Context(), newJob("", takes(time.Minute, errBoom), "k"))
		require.ErrorIs(t, err, errBoom)
		require.ErrorIs(t, err, dispatcher.ErrTimeout)
		// An error in time has nothing to do with it, nor has success.
		require.NotErrorIs(t, d.Do(t.Context(), newJob("", takes(0, errBoom), "k")), dispatcher.ErrTimeout)
		require.NoError(t, d.Do(t.Context(), newJob("", takes(time.Minute, nil), "k")))
		// A permanent error stays one.
		require.True(t, dispatcher.IsPermanent(d.Do(t.Context(), newJob("", takes(time.Minute, dispatcher.Permanent(errBoom)), "k"))))
	})
}

// TestRetries: the delays, what an attempt knows of itself, and that a retry
// holds its keys but no worker.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1, MaxAttempts: 6, Backoff: dispatcher.Backoff{Max: 500 * time.Millisecond, Jitter: -1}})
		begun := time.Now()
		var starts []time.Duration
		ticket, err := d.Go(t.Context(), newJob("", func(ctx context.Context) error {
			starts = append(starts, time.Since(begun))
			info, ok := dispatcher.InfoFrom(ctx)
			require.True(t, ok)
			require.Equal(t, dispatcher.Info{ID: 1, Attempt: len(starts)}, info)
			return errBoom
		}, "k"))
		require.NoError(t, err)
		other, err := d.Go(t.Context(), newJob("", nil, "k/x"))
		require.NoError(t, err)
		for range 10 {
			require.NoError(t, d.Do(t.Context(), newJob("", takes(10*time.Millisecond, nil), "other")))
		}
		synctest.Wait()
		require.Equal(t, 1, d.Stats().Backoff)
		require.NoError(t, other.Err())
		require.ErrorIs(t, ticket.Wait(t.Context()), errBoom)
		ms := time.Millisecond
		require.Equal(t, []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1200 * ms, 1700 * ms}, starts)
		require.NoError(t, other.Wait(t.Context()))
		drain(t, d)
		s := d.Stats()
		require.Equal(t, dispatcher.Stats{Accepted: 12, Started: 17, Retried: 5, Succeeded: 11, Failed: 1}, s)
		_, ok := dispatcher.InfoFrom(t.Context())
		require.False(t, ok)
	})
	// With jitter the delays are spread to either side.
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 200, MaxAttempts: 2, Backoff: dispatcher.Backoff{Initial: time.Second, Jitter: 0.5}})
		begun := time.Now()
		var sooner atomic.Int32
		for i := range 200 {
			submit(t, d, newJob("", func(ctx context.Context) error {
				if info, _ := dispatcher.InfoFrom(ctx); info.Attempt == 1 {
					return errBoom
				}
				delay := time.Since(begun)
				require.LessOrEqual(t, delay, 1500*time.Millisecond)
				require.GreaterOrEqual(t, delay, 500*time.Millisecond)
				if delay < time.Second {
					sooner.Add(1)
				}
				return nil
			}, fmt.Sprint(i)))
		}
		drain(t, d)
		require.InDelta(t, 100, sooner.Load(), 60)
	})
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{MaxAttempts: 9})
		wrapped := fmt.Errorf("context: %w", dispatcher.Permanent(errBoom))
		require.ErrorIs(t, d.Do(t.Context(), newJob("", takes(0, wrapped), "k")), errBoom)
		require.EqualValues(t, 1, d.Stats().Started, "a permanent error is not tried again")
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 2, MaxPending: 4, Failure: dispatcher.Stop})
		var results []string
		done := dispatcher.OnDone(func(j *job, err error) {
			results = append(results, fmt.Sprint(j.name, " ", errors.Is(err, dispatcher.ErrClosed)))
		})
		for _, j := range []*job{
			newJob("bad", takes(time.Second, errBoom), "a"),
			newJob("runs", takes(2*time.Second, nil), "b"),
			newJob("behind", nil, "a"),
			newJob("queued", nil, "c"),
		} {
			require.NoError(t, d.Submit(t.Context(), j, done))
		}
		waiting := make(chan error, 1)
		go func() { waiting <- d.Submit(context.Background(), newJob("waits for room", nil)) }()
		drained := make(chan error, 1)
		go func() { drained <- d.Drain(context.Background()) }()
		time.Sleep(1500 * time.Millisecond)
		for _, err := range []error{d.Err(), <-waiting, <-drained, d.TrySubmit(t.Context(), newJob("", nil)), d.Submit(t.Context(), newJob("", nil))} {
			require.ErrorIs(t, err, dispatcher.ErrStopped)
			require.ErrorIs(t, err, errBoom)
		}
		r, err := d.Shutdown(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"bad", "behind", "queued"}, names(r.Unfinished))
		require.ErrorIs(t, r.Unfinished[0].Err, errBoom)
		require.Equal(t, 1, r.Unfinished[0].Attempts)
		require.Equal(t, []string{"runs false", "bad true", "behind true", "queued true"}, results)
	})
}

func names(left []dispatcher.Left[*job]) (list []string) {
	for _, l := range left {
		list = append(list, l.Message.name)
	}
	return list
}
