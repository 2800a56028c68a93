package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/lockkeys"
)

// anyMessages draws messages with keys of a small tree, the root included.
func anyMessages(t *rapid.T) []*message {
	segment := rapid.SampledFrom([]string{"a", "b", "c"})
	key := rapid.Custom(func(t *rapid.T) lockkeys.Key {
		return lockkeys.Must(rapid.SliceOfN(segment, 0, 3).Draw(t, "segments")...)
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *message {
		start := rapid.IntRange(0, 20).Draw(t, "start")
		return &message{
			keys:  rapid.SliceOfN(key, 0, 3).Draw(t, "keys"),
			start: time.Duration(start),
			end:   time.Duration(start + rapid.IntRange(0, 5).Draw(t, "takes")),
		}
	}), 0, 30).Draw(t, "messages")
}

func conflict(a, b *message) bool {
	for _, x := range a.keys {
		for _, y := range b.keys {
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
			ends[j] += m.end - m.start
			longest = max(longest, ends[j])
		}
		require.Equal(t, longest, longestChain(msgs))
	})
}

func TestOutOfOrderAgainstAllPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := anyMessages(t)
		want := -1
		for j := range msgs {
			for i := range j {
				if want < 0 && conflict(msgs[i], msgs[j]) && msgs[j].start < msgs[i].end {
					want = j
				}
			}
		}
		require.Equal(t, want, outOfOrder(msgs))
	})
}
