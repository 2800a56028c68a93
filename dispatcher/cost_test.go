package dispatcher_test

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestNoAllocations: in the steady state a message costs no allocation; with a
// context that may have values next to none.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, policy := range []dispatcher.Policy{dispatcher.HeadOnly(), dispatcher.LookAhead(4096)} {
		for _, second := range []bool{false, true} {
			for _, c := range []struct {
				keys   int // mostly blocked, mostly not
				values bool
			}{{4, false}, {1024, false}, {1024, true}} {
				keys := c.keys
				t.Run(fmt.Sprint(policy, " second=", second, " keys=", keys, " values=", c.values), func(t *testing.T) {
					ctx, most := context.Background(), 0.01
					if c.values {
						ctx, most = t.Context(), 0.05
					}
					d, err := dispatcher.New(dispatcher.Config[pair]{
						Keys: pairKeys, Workers: 2, Policy: policy, MaxPending: 512,
						Handler: func(context.Context, pair) error { return nil },
					})
					require.NoError(t, err)
					defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it empties pools
					const n = 20_000
					i := 0
					round := func() {
						for range n {
							i++
							m := pair{int32(i % keys), -1}
							if second {
								m.b = int32(i * 7 % keys)
							}
							_ = d.Submit(ctx, m)
						}
						_ = d.Drain(context.Background())
					}
					// How deep the queue gets is the scheduler's affair, and what
					// it needs is kept: so the best of a few rounds counts.
					least := math.Inf(1)
					for range 5 {
						least = min(least, testing.AllocsPerRun(1, round)/n)
					}
					require.Less(t, least, most)
					require.NoError(t, d.Close())
				})
			}
		}
	}
}

// examined counts the Blocked events of each message.
type examined map[uint64]int

func (e examined) observe(ev dispatcher.Event[[]lockkeys.Key]) {
	if ev.Kind == dispatcher.Blocked {
		e[ev.ID]++
	}
}

// TestBlockedMessagesAreExaminedOnce: however many wait, and however long; a
// message that is blocked is looked at once, and then woken.
func TestBlockedMessagesAreExaminedOnce(t *testing.T) {
	one := lockkeys.Must("client", "42")
	child := func(i int) lockkeys.Key { return lockkeys.Must("client", "42", "account", fmt.Sprint(i)) }
	for name, c := range map[string]struct {
		window   int
		messages func(submit func(keys ...lockkeys.Key))
		blocked  int
	}{
		"window 16":     {16, func(submit func(...lockkeys.Key)) { repeat(1000, func(int) { submit(one) }) }, 999},
		"window 1024":   {1024, func(submit func(...lockkeys.Key)) { repeat(5000, func(int) { submit(one) }) }, 4999},
		"window 65,536": {65536, func(submit func(...lockkeys.Key)) { repeat(20000, func(int) { submit(one) }) }, 19999},
		"one subtree lock over 10,000 children": {65536, func(submit func(...lockkeys.Key)) {
			submit(one)
			repeat(10000, func(i int) { submit(child(i)) })
		}, 10000},
		"10,000 children before a subtree lock": {65536, func(submit func(...lockkeys.Key)) {
			submit(one)
			repeat(10000, func(i int) { submit(child(i)) })
			submit(one)
		}, 10001},
		"1,000 subtree locks in a row": {65536, func(submit func(...lockkeys.Key)) {
			repeat(1000, func(i int) { submit(one); submit(child(i)); submit(child(i), child(i+1)) })
		}, 2999},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				counts := make(examined)
				open := make(chan struct{})
				d, err := dispatcher.New(dispatcher.Config[[]lockkeys.Key]{
					Keys:    func(keys []lockkeys.Key, claim *lockkeys.Claim) error { claim.Exclusive(keys...); return nil },
					Handler: func(context.Context, []lockkeys.Key) error { <-open; return nil },
					Workers: 4, Policy: dispatcher.LookAhead(c.window), Observer: counts.observe,
				})
				require.NoError(t, err)
				n := 0
				c.messages(func(keys ...lockkeys.Key) {
					n++
					require.NoError(t, d.Submit(t.Context(), keys))
				})
				synctest.Wait()
				require.Equal(t, min(c.blocked, c.window+1), d.Stats().Waiting)
				close(open)
				require.NoError(t, d.Drain(t.Context()))
				require.NoError(t, d.Close())
				require.EqualValues(t, n, d.Stats().Started)
				for id, count := range counts {
					require.Equal(t, 1, count, "message %d", id)
				}
				require.LessOrEqual(t, len(counts), c.blocked)
				require.GreaterOrEqual(t, len(counts), min(c.blocked, c.window+1))
			})
		})
	}
}

func repeat(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}
