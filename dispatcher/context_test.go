package dispatcher_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// TestHandlerContextIsItsOwn: a context that a handler has derived others from
// or asked about itself is not used again for another message.
func TestHandlerContextIsItsOwn(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			d := start(t, config{Workers: 1, Timeout: timeout})
			var kept []context.Context
			for i := range 10 {
				require.NoError(t, d.Do(t.Context(), newJob("", func(ctx context.Context) error {
					switch i % 3 {
					case 0:
						info, _ := dispatcher.InfoFrom(ctx)
						require.EqualValues(t, i+1, info.ID)
					case 1:
						derived, cancel := context.WithCancel(ctx)
						defer cancel()
						_, _ = dispatcher.InfoFrom(derived)
					case 2:
						_ = ctx.Done()
					}
					kept = append(kept, ctx)
					return nil
				})))
			}
			for i, ctx := range kept {
				info, ok := dispatcher.InfoFrom(ctx)
				require.True(t, ok)
				require.Equal(t, dispatcher.Info{ID: uint64(i + 1), Attempt: 1}, info)
				require.Equal(t, timeout > 0, ctx.Err() != nil)
			}
		})
	}
}

// TestDerivedContextsEnd: with the time limit, and shortly before the deadline
// of a shutdown.
func TestDerivedContextsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 3, CancelGrace: time.Second})
		var ended []time.Duration
		begun := time.Now()
		wait := func(derive func(context.Context) context.Context) func(context.Context) error {
			return func(ctx context.Context) error {
				derived := derive(ctx)
				<-derived.Done()
				require.ErrorIs(t, ctx.Err(), context.Canceled)
				return ctx.Err()
			}
		}
		submit(t, d,
			newJob("", wait(func(ctx context.Context) context.Context { return ctx }), "a"),
			newJob("", wait(func(ctx context.Context) context.Context { return context.WithValue(ctx, errBoom, 1) }), "b"),
			newJob("", wait(func(ctx context.Context) context.Context {
				derived, cancel := context.WithTimeout(ctx, time.Hour)
				context.AfterFunc(derived, func() { ended = append(ended, time.Since(begun)); cancel() })
				return derived
			}), "c"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, err := d.Shutdown(ctx)
		require.NoError(t, err)
		require.Len(t, r.Unfinished, 3)
		synctest.Wait()
		require.Equal(t, []time.Duration{9 * time.Second}, ended)
	})
	// The grace is at most half of the time that there is.
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{CancelGrace: time.Hour})
		submit(t, d, newJob("", func(ctx context.Context) error { <-ctx.Done(); return nil }))
		synctest.Wait()
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, err := d.Shutdown(ctx)
		require.NoError(t, err)
		require.Empty(t, r.Unfinished, "success is success, however late")
		require.Equal(t, 5*time.Second, time.Since(begun))
	})
}

// TestHotKeyDoesNotSlowTheOthers: three of ten messages are for one key, more
// than it can take, so that hundreds wait for it. The others do not wait at
// all, and what waits can be seen.
func TestHotKeyDoesNotSlowTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 4})
		for i := range 2000 {
			if i%10 < 3 {
				submit(t, d, newJob("hot", takes(6*time.Millisecond, nil), "hot"))
			} else {
				submitted := time.Now()
				submit(t, d, newJob("cold", func(context.Context) error {
					require.Zero(t, time.Since(submitted))
					time.Sleep(2 * time.Millisecond)
					return nil
				}, fmt.Sprint("cold/", i%100)))
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		behind := make(map[string]int)
		for _, m := range d.Snapshot().Messages {
			if m.State == dispatcher.StateWaiting {
				behind[m.BlockedBy.String()]++
			}
		}
		require.Greater(t, behind["hot"], 200)
		require.Len(t, behind, 1)
		drain(t, d)
	})
}

// TestContextOutlivesItsHandler: what a handler leaves running may go on asking
// the context for values, its end and its deadline, while the worker runs
// other messages.
func TestContextOutlivesItsHandler(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Minute} {
		d := start(t, config{Workers: 1, Timeout: timeout})
		var left sync.WaitGroup
		for range 200 {
			require.NoError(t, d.Do(t.Context(), newJob("", func(ctx context.Context) error {
				aside := context.WithoutCancel(context.WithValue(ctx, errBoom, 1))
				left.Go(func() {
					for range 20 {
						require.Equal(t, 1, aside.Value(errBoom))
						require.Nil(t, aside.Value(errStep))
						_, _ = ctx.Deadline()
						_ = ctx.Err()
						runtime.Gosched()
					}
				})
				return nil
			})))
		}
		left.Wait()
	}
}
