package dispatcher_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestContextOfAnAttemptThatIsOver: whatever way the attempt ended, and though
// nothing was ever asked of its context before, it does nothing to those that
// the worker runs later, and is no handler's any more.
func TestContextOfAnAttemptThatIsOver(t *testing.T) {
	for name, ends := range map[string]func() error{
		"succeeds": func() error { return nil },
		"retried":  func() error { return errBoom },
		"fails":    func() error { return dispatcher.Permanent(errBoom) },
		"panics":   func() error { panic(errBoom) },
		"exits":    func() error { runtime.Goexit(); return nil },
		"widens":   func() error { return dispatcher.Widen(requests("b")...) },
	} {
		for _, timeout := range []time.Duration{0, time.Minute} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := start(t, config{Workers: 1, MaxAttempts: 2, Timeout: timeout, Backoff: dispatcher.Backoff{Initial: time.Millisecond}})
					var kept []context.Context
					submit(t, d, newJob("", func(ctx context.Context) error {
						if kept = append(kept, ctx); len(kept) == 1 {
							return ends()
						}
						// Not even of its own message's next attempt.
						require.ErrorIs(t, dispatcher.Release(kept[0], key("a")), dispatcher.ErrNoHandler)
						return nil
					}, "a"))
					drain(t, d)
					over := context.WithoutCancel(kept[0]) // its time is over too
					for range 300 {                        // more than are made at a time
						require.NoError(t, d.Do(over, newJob("", func(context.Context) error {
							before := d.Snapshot().Messages[0].Claim
							require.ErrorIs(t, dispatcher.Release(kept[0], key("a")), dispatcher.ErrNoHandler)
							require.ErrorIs(t, dispatcher.Release(over), dispatcher.ErrNoHandler)
							require.Equal(t, before, d.Snapshot().Messages[0].Claim)
							info, ok := dispatcher.InfoFrom(over)
							require.True(t, ok)
							require.Equal(t, dispatcher.Info{ID: 1, Attempt: 1}, info)
							return nil
						}, "a")), "it need not be refused as nested any more")
					}
					require.NoError(t, d.Drain(over))
					require.NoError(t, d.Submit(over, newJob("", nil)))
					_, err := d.Shutdown(over)
					require.NoError(t, err)
				})
			})
		}
	}
}

// TestReleaseBesideTheReturn: goroutines that a handler leaves behind give its
// keys back at about the time when it returns. Either that counts, or it does
// nothing; two that conflict never run at once. (Run with -race.)
func TestReleaseBesideTheReturn(t *testing.T) {
	var left sync.WaitGroup
	var released, late atomic.Int64
	var inside [4]atomic.Int32
	keys := []lockkeys.Key{key("k/0"), key("k/1"), key("k/2"), key("k/3")}
	type pair struct{ a, b int }
	d, err := dispatcher.New(dispatcher.Config[pair]{
		Keys: func(p pair, claim *lockkeys.Claim) error {
			claim.Exclusive(keys[p.a], keys[p.b])
			return nil
		},
		Handler: func(ctx context.Context, p pair) error {
			info, _ := dispatcher.InfoFrom(ctx)
			if info.Attempt == 2 {
				return nil
			}
			// Only its first key is used: the second may be given back.
			if inside[p.a].Add(1) > 1 {
				t.Error("overlap")
			}
			defer inside[p.a].Add(-1)
			left.Go(func() {
				for range rand.IntN(3) {
					runtime.Gosched()
				}
				if err := dispatcher.Release(ctx, keys[p.b]); err == nil {
					released.Add(1)
				} else {
					late.Add(1)
				}
			})
			runtime.Gosched()
			if info.ID%3 == 0 {
				return errBoom
			}
			return nil
		},
		MaxAttempts: 2, Backoff: dispatcher.Backoff{Initial: time.Microsecond}, Workers: 4,
	})
	require.NoError(t, err)
	for i := range 5000 {
		require.NoError(t, d.Submit(t.Context(), pair{i % 4, (i + 1 + i/4%3) % 4}))
	}
	require.NoError(t, d.Drain(t.Context()))
	left.Wait()
	require.NoError(t, d.Close())
	require.Positive(t, released.Load())
	require.Positive(t, late.Load())
	require.EqualValues(t, 5000, d.Stats().Succeeded)
}
