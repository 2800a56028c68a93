package dispatcher_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// TestDeadlineHoldsWithSlowCallbacks: whatever takes its time, Shutdown returns
// at its deadline and says that something has not ended; another call returns
// when all of it has.
func TestDeadlineHoldsWithSlowCallbacks(t *testing.T) {
	const slow, deadline = time.Minute, time.Second
	for name, cfg := range map[string]config{
		"OnDone of what is left":    {},
		"OnDone of what ends":       {},
		"OnDone of what is skipped": {Failure: dispatcher.Park},
		"OnDone of what is dropped": {Failure: dispatcher.Park},
		"DeadLetter": {DeadLetter: func(context.Context, *job, error) error {
			time.Sleep(slow)
			return nil
		}},
		"FailureFor": {FailureFor: func(*job, error) dispatcher.FailurePolicy {
			time.Sleep(slow)
			return dispatcher.Park
		}},
		"Observer": {Observer: func(event) { time.Sleep(slow) }},
		"handler":  {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := start(t, cfg)
				var running, results atomic.Int32
				wait := func(d time.Duration) {
					running.Add(1)
					time.Sleep(d)
					running.Add(-1)
				}
				onDone := func(takes time.Duration) dispatcher.SubmitOption[*job] {
					return dispatcher.OnDone(func(*job, error) {
						results.Add(1)
						wait(takes)
					})
				}
				put := func(takes time.Duration, run func(context.Context) error) {
					require.NoError(t, d.Submit(t.Context(), newJob("", run, "a"), onDone(takes)))
				}
				accepted := 1
				switch name {
				case "OnDone of what is left":
					put(0, takes(deadline/2, nil))
					for range 50 {
						put(slow, nil)
					}
					accepted = 51
				case "OnDone of what ends":
					put(slow, nil)
				case "OnDone of what is skipped", "OnDone of what is dropped":
					put(slow, takes(0, errBoom))
					put(slow, nil)
					accepted = 2
					synctest.Wait()
					if name == "OnDone of what is skipped" {
						go func() { _ = d.Skip(t.Context(), 1) }()
					} else {
						go func() { _ = d.Drop(t.Context(), 1) }()
					}
				case "handler":
					put(0, func(context.Context) error { wait(slow); return nil })
				default:
					put(0, takes(0, errBoom))
				}
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				begun := time.Now()
				_, err := d.Shutdown(ctx)
				require.Equal(t, deadline, time.Since(begun))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				if name != "Observer" {
					require.ErrorIs(t, err, dispatcher.ErrUnfinished)
				}

				ctx, cancel = context.WithTimeout(t.Context(), deadline)
				defer cancel()
				begun = time.Now()
				_, err = d.Shutdown(ctx)
				require.Equal(t, deadline, time.Since(begun))
				require.ErrorIs(t, err, context.DeadlineExceeded, "it goes on")

				_, err = d.Shutdown(t.Context())
				require.NoError(t, err)
				require.Zero(t, running.Load())
				require.EqualValues(t, accepted, results.Load())
			})
		})
	}
}
