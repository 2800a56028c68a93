package numbering

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// claim reads keys, of which those with a question mark are shared.
func claim(keys ...string) *lockkeys.Claim {
	c := lockkeys.NewClaim()
	for _, k := range keys {
		if k[0] == '?' {
			c.Shared(lockkeys.MustParse(k[1:]))
		} else {
			c.Exclusive(lockkeys.MustParse(k))
		}
	}
	return c
}

func TestNumbers(t *testing.T) {
	n := New(lockkeys.Root())
	for i, step := range []struct {
		keys []string
		want string
	}{
		{[]string{"client/1/a"}, "client/1=1"},
		{[]string{"client/1/b"}, "client/1=2"},
		{[]string{"client/1/a", "client/2/a"}, "client/1=3, client/2=1"},
		{[]string{"/"}, "client/1=4, client/2=2, /=1"},
		{[]string{"?client/2"}, "client/2=3"},
		{[]string{"client/3/a"}, "/=2, client/3=1"},    // it is new, and must not overtake what asked for all
		{[]string{"client/3/a"}, "client/3=2"},         // it follows the one before
		{[]string{"/"}, "client/2=4, client/3=3, /=3"}, // nothing happened on client/1
		{[]string{"client/1/a"}, "/=4, client/1=5"},
		{[]string{"?client"}, "/=5, client/1=6, client/2=5, client/3=4, client=1"},
		{[]string{"bank"}, "/=6, bank=1"},
		{[]string{"/"}, "client/1=7, client/2=6, client/3=5, client=2, bank=2, /=7"},
		{nil, "/=8"},
	} {
		var requests []lockkeys.Request
		if step.keys != nil {
			requests = claim(step.keys...).Requests()
		}
		assert.Equal(t, step.want, ordering.FormatSequenceID(n.Next(requests)), "message %d: %v", i+1, step.keys)
	}
}

func TestStreamsLieBelow(t *testing.T) {
	n := New(lockkeys.Must("input", "3"))
	assert.Equal(t, "input/3/client/1=1", ordering.FormatSequenceID(n.Next(claim("client/1/a").Requests())))
	assert.Equal(t, "input/3/client/1=2, input/3=1", ordering.FormatSequenceID(n.Next(claim("/").Requests())))
}

// A long name is cut short in the streams, and is still told from others.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("x", 500)
	n := NewBounded(lockkeys.Must("input", "9223372036854775807"), 1000)
	streams := map[lockkeys.Key]bool{}
	for _, key := range []string{long + "/a", long + "y/a", "a/" + long, "a/" + long + "y", strings.Repeat("y", maxName) + "/a"} {
		for _, p := range n.Next(claim(key).Requests()) {
			require.LessOrEqual(t, len(p.Stream.String()), 130, "of the 128 KiB for a thousand of them")
			streams[p.Stream] = true
		}
	}
	require.Len(t, streams, 5)
	require.Contains(t, streams, lockkeys.Must("input", "9223372036854775807", strings.Repeat("y", maxName), "a"))
	again := NewBounded(lockkeys.Must("input", "9223372036854775807"), 1000)
	require.True(t, streams[again.Next(claim(long + "/a").Requests())[0].Stream])
}

// keys are few, so that messages meet.
var keys = []string{
	"/", "a", "a/b", "a/b/c", "a/b/d", "a/c", "b", "b/a", "b/c/d/e", "c/a", "d",
	"?/", "?a", "?a/b", "?a/b/c", "?b", "?b/a", "?c", "?d/a/b",
}

// Of any two messages that conflict, the earlier one comes first by their
// numbers, through others if need be; with few streams allowed too.
func TestConflictingMessagesAreOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := New(lockkeys.Root())
		n.limit = rapid.IntRange(1, 12).Draw(t, "limit")
		claims := rapid.SliceOfN(rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 1, 3, rapid.ID), 1, 25).Draw(t, "messages")
		at := map[lockkeys.Key]int{} // the last message of each stream
		last := map[lockkeys.Key]uint64{}
		after := make([][]bool, len(claims)) // which come before each
		for j, keys := range claims {
			after[j] = make([]bool, len(claims))
			for _, p := range n.Next(claim(keys...).Requests()) {
				last[p.Stream]++
				require.Equal(t, last[p.Stream], p.Number, "a stream is numbered without holes, and a message once on it")
				if i, begun := at[p.Stream]; begun {
					after[j][i] = true
					for k := range i {
						after[j][k] = after[j][k] || after[i][k]
					}
				}
				at[p.Stream] = j
			}
			for i := range j {
				if claim(claims[i]...).Conflicts(claim(keys...)) {
					require.True(t, after[j][i], "message %d %v may overtake message %d %v", j, keys, i, claims[i])
				}
			}
		}
		require.LessOrEqual(t, len(last), n.limit)
	})
}

// Messages that have nothing in common are independent by their numbers too,
// until one asks for something wide.
func TestIndependentMessagesShareNoStream(t *testing.T) {
	n := New(lockkeys.Root())
	seen := map[lockkeys.Key]bool{}
	for i := range 100 {
		positions := n.Next(claim("client/" + strconv.Itoa(i) + "/account/1").Requests())
		require.Len(t, positions, 1)
		require.False(t, seen[positions[0].Stream])
		seen[positions[0].Stream] = true
	}
}

// However many streams there are, a message costs a few numbers on average,
// and none has more than an event can carry.
func TestCost(t *testing.T) {
	const messages = 50_000
	n := New(lockkeys.Root())
	total, most := 0, 0
	for i := range messages {
		key := "client/" + strconv.Itoa(i%6000) + "/a"
		switch {
		case i%5000 == 4999:
			key = "/"
		case i%10 == 9:
			key = "?client"
		}
		positions := n.Next(claim(key).Requests())
		total += len(positions)
		most = max(most, len(positions))
	}
	assert.Less(t, float64(total)/messages, 1+2.0*depth)
	assert.LessOrEqual(t, most, ordering.MaxPositions)
}
