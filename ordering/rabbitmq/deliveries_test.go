package rabbitmq

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// brokerTags is what a broker knows of a channel's deliveries, and what it does
// not forgive.
type brokerTags struct {
	t      *rapid.T
	unread map[uint64]bool // delivered and not acknowledged
	may    map[uint64]bool // settled
	steps  int
}

func (b *brokerTags) Ack(tag uint64, multiple bool) error {
	b.steps++
	require.True(b.t, b.unread[tag], "tag %d is not known, or acknowledged already", tag)
	for n := range b.unread {
		if n == tag || multiple && n < tag {
			require.True(b.t, b.may[n], "tag %d was not settled, %d was", n, tag)
			delete(b.unread, n)
		}
	}
	return nil
}

// Whatever the order in which deliveries are settled, each that is to be
// acknowledged is so exactly once, and no other.
func TestEachTagIsAcknowledgedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &brokerTags{t: t, unread: map[uint64]bool{}, may: map[uint64]bool{}}
		e := newDeliveries(b)
		var last uint64
		var open []uint64
		acks := func() {
			_, err := e.acknowledge(nil)
			require.NoError(t, err)
			for tag := range b.may {
				require.False(t, b.unread[tag], "tag %d waits for nothing", tag)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"deliver": func(t *rapid.T) {
				last++
				b.unread[last] = true
				open = append(open, last)
				e.received()
			},
			"settle": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				ack := rapid.IntRange(0, 9).Draw(t, "ack") > 0
				if ack {
					b.may[open[i]] = true
				}
				require.True(t, e.leave(open[i], ack))
				open = append(open[:i], open[i+1:]...)
			},
			"acknowledge": func(*rapid.T) { acks() },
		})
		acks()
	})
}

func TestAFullWindowIsAcknowledgedInOneStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &brokerTags{t: t, unread: map[uint64]bool{}, may: map[uint64]bool{}}
		e := newDeliveries(b)
		n := rapid.IntRange(1, 100).Draw(t, "window")
		order := rapid.Permutation(numbersTo(n)).Draw(t, "order")
		for tag := range uint64(n) {
			b.unread[tag+1], b.may[tag+1] = true, true
			e.received()
		}
		for _, tag := range order {
			e.leave(tag, true)
		}
		_, err := e.acknowledge(nil)
		require.NoError(t, err)
		require.Empty(t, b.unread)
		require.Equal(t, 1, b.steps)
	})
}

func numbersTo(n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = uint64(i + 1)
	}
	return list
}

// What is settled when the channel is gone has no effect, and is waited for all
// the same.
func TestDeliveriesOfAChannelThatIsGone(t *testing.T) {
	e := newDeliveries(nil)
	e.received()
	quiet := e.quiet()
	e.end()
	select {
	case <-quiet:
		t.Fatal("something is open")
	default:
	}
	require.False(t, e.leave(1, true))
	<-quiet
	<-e.quiet()
	tags, err := e.acknowledge(nil)
	require.NoError(t, err)
	require.Empty(t, tags)
}
