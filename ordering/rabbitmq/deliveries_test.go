package rabbitmq

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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
		e := newDeliveries(b, 8)
		var last uint64
		var open []uint64
		acks := func(all bool) {
			waited := slices.Clone(e.apart)
			require.NoError(t, e.acknowledge(all))
			for tag := range b.may {
				if all || tag < e.next || slices.Contains(waited, tag) {
					require.False(t, b.unread[tag], "tag %d waits for nothing", tag)
				}
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
			"acknowledge": func(*rapid.T) { acks(false) },
		})
		acks(true)
	})
}

func TestAFullWindowIsAcknowledgedInOneStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &brokerTags{t: t, unread: map[uint64]bool{}, may: map[uint64]bool{}}
		e := newDeliveries(b, 100)
		n := rapid.IntRange(1, 100).Draw(t, "window")
		order := rapid.Permutation(numbersTo(n)).Draw(t, "order")
		for tag := range uint64(n) {
			b.unread[tag+1], b.may[tag+1] = true, true
			e.received()
		}
		for _, tag := range order {
			e.leave(tag, true)
		}
		require.NoError(t, e.acknowledge(false))
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
	e := newDeliveries(nil, 100)
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
	require.NoError(t, e.acknowledge(true)) // of nothing
}

// ackOf is what a channel was told, and when.
type ackOf struct {
	tag      uint64
	multiple bool
	after    time.Duration
}

// What is settled is acknowledged at once if it is much, or all that there is, and else
// a moment later; what is behind a message that takes long, a moment after that.
func TestWhenAcknowledgementsAreSent(t *testing.T) {
	for _, c := range []struct {
		name  string
		open  int
		leave []uint64
		want  []ackOf
	}{
		{"the only one", 1, []uint64{1}, []ackOf{{1, true, 0}}},
		{"all", 3, []uint64{3, 1, 2}, []ackOf{{3, true, 0}}},
		{"one of two", 2, []uint64{1}, []ackOf{{1, true, ackDelay}}},
		{"an eighth of the window", 12, []uint64{1, 2, 3, 4}, []ackOf{{4, true, 0}}},
		{"behind one that takes long", 3, []uint64{2, 3}, []ackOf{{2, false, 2 * ackDelay}, {3, false, 2 * ackDelay}}},
		{"on both sides of it", 4, []uint64{4, 2, 1}, []ackOf{{2, true, ackDelay}, {4, false, 2 * ackDelay}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var got []ackOf
				d := newDeliveries(acker(func(tag uint64, multiple bool) { got = append(got, ackOf{tag, multiple, time.Since(began)}) }), 32)
				ctx, stop := context.WithCancel(t.Context())
				go d.acknowledgeUntil(ctx, func(error) {})
				for range c.open {
					d.received()
				}
				for _, tag := range c.leave {
					d.leave(tag, true)
				}
				time.Sleep(time.Second)
				stop()
				synctest.Wait()
				require.Equal(t, c.want, got)
			})
		})
	}
}

type acker func(tag uint64, multiple bool)

func (a acker) Ack(tag uint64, multiple bool) error {
	a(tag, multiple)
	return nil
}
