package rabbitmq_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// TestPartitionStable: these numbers are never to change: queues are full of
// messages that were put there by them.
func TestPartitionStable(t *testing.T) {
	for key, want := range map[string][4]int{ // of 1, 2, 16 and 1000
		"/":                   {0, 1, 13, 266},
		"account":             {0, 1, 2, 645},
		"account/7":           {0, 1, 1, 210},
		"account/8":           {0, 1, 6, 187},
		"client/42":           {0, 0, 8, 622},
		"client/42/account/7": {0, 0, 8, 622},
		"client/42/card/1":    {0, 0, 8, 622},
		"client/æ":            {0, 1, 9, 587},
		"order/2026-000001":   {0, 0, 13, 56},
		"a%2Fb/c":             {0, 0, 9, 766},
		"a/b%2Fc":             {0, 0, 2, 297},
	} {
		k := lockkeys.MustParse(key)
		got := [4]int{rabbitmq.Partition(k, 1), rabbitmq.Partition(k, 2), rabbitmq.Partition(k, 16), rabbitmq.Partition(k, 1000)}
		assert.Equal(t, want, got, key)
	}
}

// TestPartitionSpread: keys are spread evenly, also if they are much alike; and
// a partition more takes from all others what it needs, and moves nothing else.
func TestPartitionSpread(t *testing.T) {
	const keys = 20_000
	for _, form := range []string{"account/%d", "client/%08d/account/7", "order/2026-11-28-%d", "%d"} {
		for _, n := range []int{2, 3, 8, 64} {
			counts, moved := make([]int, n), 0
			for i := range keys {
				key := lockkeys.MustParse(fmt.Sprintf(form, i))
				p, next := rabbitmq.Partition(key, n), rabbitmq.Partition(key, n+1)
				counts[p]++
				if next != p {
					assert.Equal(t, n, next, "only to the new one")
					moved++
				}
			}
			mean := keys / n
			for p, count := range counts {
				assert.InDelta(t, mean, count, 0.2*float64(mean), "%s, partition %d of %d", form, p, n)
			}
			assert.InDelta(t, keys/(n+1), moved, 0.2*float64(keys/(n+1)), "%s, %d to %d", form, n, n+1)
		}
	}
}

func TestPartitionOfNone(t *testing.T) {
	for _, n := range []int{0, -5} {
		assert.Zero(t, rabbitmq.Partition(lockkeys.Must("account", "7"), n))
	}
}

// TestPartitionOf: all streams of an event are in its partition, or it is
// refused.
func TestPartitionOf(t *testing.T) {
	transfer := func(streams ...string) *ordering.Event {
		e := &ordering.Event{ID: "t1"}
		for _, s := range streams {
			e.Positions = append(e.Positions, ordering.Position{Stream: lockkeys.MustParse(s), Number: 1})
		}
		return e
	}
	const n = 16
	within := transfer("client/42/account/7", "client/42/account/8", "client/42/card/1")
	p, err := rabbitmq.PartitionOf(within, n)
	require.NoError(t, err)
	assert.Equal(t, rabbitmq.Partition(lockkeys.Must("client", "42"), n), p)

	_, err = rabbitmq.PartitionOf(transfer("client/42", "client/43"), n)
	require.ErrorIs(t, err, rabbitmq.ErrSpansPartitions)
	assert.True(t, dispatcher.IsPermanent(err))
	assert.ErrorContains(t, err, "\"t1\": client/42 is in")
	assert.ErrorContains(t, err, "have one partition")
	p, err = rabbitmq.PartitionOf(transfer("client/42", "client/43"), 1)
	require.NoError(t, err)
	assert.Zero(t, p)

	_, err = rabbitmq.PartitionOf(transfer(), n)
	require.ErrorIs(t, err, ordering.ErrNoPosition)
}

// TestPartitions: the queues of a service, and the way to them.
func TestPartitions(t *testing.T) {
	parts := rabbitmq.Partitions{Prefix: "orders", Count: 3, Queue: rabbitmq.Queue{Type: rabbitmq.Classic, Name: "of no account"}}
	assert.Equal(t, []rabbitmq.Queue{
		{Name: "orders.0", Type: rabbitmq.Classic, SingleActive: true},
		{Name: "orders.1", Type: rabbitmq.Classic, SingleActive: true},
		{Name: "orders.2", Type: rabbitmq.Classic, SingleActive: true},
	}, parts.Topology().Queues)

	e := event("7", 1)
	exchange, key, err := parts.Route(e)
	require.NoError(t, err)
	assert.Empty(t, exchange)
	assert.Equal(t, fmt.Sprintf("orders.%d", rabbitmq.Partition(e.Positions[0].Stream, 3)), key)

	for partition := range 3 {
		owns := parts.Owns(partition)
		assert.Equal(t, key == parts.QueueName(partition), owns(e.Positions[0].Stream))
	}
	assert.True(t, rabbitmq.Partitions{}.Owns(0)(e.Positions[0].Stream))

	_, key, err = rabbitmq.Partitions{Prefix: "orders"}.Route(e)
	require.NoError(t, err)
	assert.Equal(t, "orders.0", key)

	_, _, err = parts.Route(&ordering.Event{})
	require.ErrorIs(t, err, ordering.ErrNoPosition)
}

// TestPartitionedPublishing: each event is in the queue of its partition.
func TestPartitionedPublishing(t *testing.T) {
	node := broker(t)
	parts := rabbitmq.Partitions{Prefix: t.Name(), Count: 4}
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: node.URL(), Topology: parts.Topology()}, Route: parts.Route})
	const accounts, each = 20, 20
	publishAll(t, p, accounts, each)
	total := 0
	for i := range parts.Count {
		events := contents(t, node, parts.QueueName(i))
		total += len(events)
		for stream, numbers := range firstSeen(events) {
			assert.Equal(t, i, rabbitmq.Partition(stream, parts.Count))
			assert.Equal(t, upTo(each), numbers)
		}
	}
	assert.Equal(t, accounts*each, total)
}

// TestPartitionsCheck: what a publisher would refuse for good, it refuses.
func TestPartitionsCheck(t *testing.T) {
	parts := rabbitmq.Partitions{Prefix: "orders", Count: 16}
	at := func(streams ...string) (list []ordering.Position) {
		for _, s := range streams {
			list = append(list, ordering.Position{Stream: lockkeys.MustParse(s), Number: ordering.MaxNumber})
		}
		return list
	}
	header := func(name, value string) *ordering.Event {
		return &ordering.Event{Positions: at("client/42"), Headers: map[string]string{name: value}}
	}
	var wide []string
	for i := range ordering.MaxPositions {
		wide = append(wide, fmt.Sprintf("client/42/account/%d", i))
	}
	require.NoError(t, parts.Check(&ordering.Event{Positions: at("client/42/account/7", "client/42/card/1")}))
	require.NoError(t, parts.Check(header("note", strings.Repeat("x", 100<<10))))
	for name, test := range map[string]struct {
		event *ordering.Event
		says  string
	}{
		"nil":            {nil, "it is nil"},
		"not valid":      {&ordering.Event{}, "no position"},
		"two partitions": {&ordering.Event{Positions: at("client/42", "client/43")}, "in several partitions"},
		"reserved name":  {header(rabbitmq.CausationHeader, "mine"), "the event itself"},
		"long name":      {header(strings.Repeat("h", 256), ""), "256 bytes long"},
		"long header":    {header("note", strings.Repeat("x", 128<<10)), "a frame holds 131072"},
		"many streams":   {&ordering.Event{Positions: at(wide...)}, "a frame holds 131072"},
	} {
		err := parts.Check(test.event)
		require.ErrorContains(t, err, test.says, name)
		assert.True(t, dispatcher.IsPermanent(err), name)
	}
	parts.Prefix = strings.Repeat("q", 255)
	require.ErrorContains(t, parts.Check(header("note", "")), "routing key")
}
