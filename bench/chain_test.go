package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/lockkeys"
)

// anyMessages draws messages with keys of a small tree, the root included.
func anyMessages(t *rapid.T) []*Msg {
	segment := rapid.SampledFrom([]string{"a", "b", "c"})
	key := rapid.Custom(func(t *rapid.T) lockkeys.Key {
		return lockkeys.Must(rapid.SliceOfN(segment, 0, 3).Draw(t, "segments")...)
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *Msg {
		start := rapid.IntRange(0, 20).Draw(t, "start")
		return &Msg{
			Keys:  rapid.SliceOfN(key, 0, 3).Draw(t, "keys"),
			Start: time.Duration(start),
			End:   time.Duration(start + rapid.IntRange(0, 5).Draw(t, "takes")),
		}
	}), 0, 30).Draw(t, "messages")
}

func conflict(a, b *Msg) bool {
	for _, x := range a.Keys {
		for _, y := range b.Keys {
			if lockkeys.Conflicts(lockkeys.Request{Key: x}, lockkeys.Request{Key: y}) {
				return true
			}
		}
	}
	return false
}

func TestLongestChainAgainstAllPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := anyMessages(t)
		ends := make([]time.Duration, len(msgs))
		var longest time.Duration
		for j, m := range msgs {
			for i := range j {
				if conflict(msgs[i], m) {
					ends[j] = max(ends[j], ends[i])
				}
			}
			ends[j] += m.End - m.Start
			longest = max(longest, ends[j])
		}
		require.Equal(t, longest, LongestChain(msgs))
	})
}

func TestOutOfOrderAgainstAllPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := anyMessages(t)
		want := -1
		for j := range msgs {
			for i := range j {
				if want < 0 && conflict(msgs[i], msgs[j]) && msgs[j].Start < msgs[i].End {
					want = j
				}
			}
		}
		require.Equal(t, want, OutOfOrder(msgs))
	})
}

func TestMakespanRatio(t *testing.T) {
	require.InDelta(t, 1.5, Makespan{Elapsed: 30, Work: 20, Chain: 10}.Ratio(), 1e-9)
	require.InDelta(t, 1.2, Makespan{Elapsed: 30, Work: 20, Chain: 25}.Ratio(), 1e-9)
}
