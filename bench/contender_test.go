package bench

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryMessageIsHandledOnce(t *testing.T) {
	const n = 2000
	for _, c := range contenders {
		for _, w := range workloads {
			for _, workers := range []int{1, 8, 128} {
				handled := make([]atomic.Int32, n)
				submit, stop := c.start(workers, func(m *message) { handled[m.n].Add(1) })
				for _, m := range w.stream(n, 1000) {
					submit(m)
				}
				stop()
				for i := range handled {
					require.EqualValues(t, 1, handled[i].Load(), "%s, %s, message %d", c.name, w.name, i)
				}
			}
		}
	}
}

// The order of all conflicting pairs. Time is a count of beginnings and ends.
func TestOrder(t *testing.T) {
	for _, c := range contenders {
		if c.name != "interlock" && c.name != "interlock-head-only" && c.name != "keyed-queues" {
			continue
		}
		for _, w := range workloads {
			if w.owners > 0 && c.name == "keyed-queues" {
				continue // it has no hierarchy
			}
			for _, keys := range []int{10, 1000} {
				msgs := w.stream(5000, keys)
				var clock atomic.Int64
				submit, stop := c.start(8, func(m *message) {
					m.start = time.Duration(clock.Add(1))
					m.end = time.Duration(clock.Add(1))
				})
				for _, m := range msgs {
					submit(m)
				}
				stop()
				require.Equal(t, -1, outOfOrder(msgs), "%s, %s, %d keys", c.name, w.name, keys)
			}
		}
	}
}

// In virtual time handlers take exactly as long as they say and nothing else takes any, so
// the ratio is that of the schedule alone, and can be held to.
func TestMakespan(t *testing.T) {
	for _, most := range []int{1, 9} {
		for workers, limit := range map[int]float64{8: 1.05, 32: 1.10} {
			for _, keys := range []int{10, 1000, 100_000} {
				for _, w := range workloads {
					synctest.Test(t, func(t *testing.T) {
						_, ratio := makespan(lookAhead, workers, most, w.stream(2000, keys))
						require.LessOrEqual(t, ratio, limit, "%s, %d keys, %d workers, up to %d ms", w.name, keys, workers, most)
						require.GreaterOrEqual(t, ratio, 1.0, "no schedule is better than the best")
					})
				}
			}
		}
	}
}

func TestNothingStaysOfKeys(t *testing.T) {
	left, _ := memory(100_000)
	require.Less(t, left, 4.0, "MB")
}
