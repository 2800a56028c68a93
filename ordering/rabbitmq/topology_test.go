package rabbitmq_test

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// TestTopology: it is there after Declare, may be declared again, and does what
// it says.
func TestTopology(t *testing.T) {
	name := rabbittest.Name(t)
	topology := rabbitmq.Topology{
		Exchanges: []rabbitmq.Exchange{{Name: name}, {Name: name + ".topic", Kind: "topic"}},
		Queues: []rabbitmq.Queue{
			{Name: name, DeadLetterKey: name + ".dead"},
			{Name: name + ".single", SingleActive: true},
			{Name: name + ".dead", Type: rabbitmq.Classic, Args: amqp.Table{"x-max-length": int32(10)}},
			{Name: name + ".via", DeadLetter: name, DeadLetterKey: "letters"},
		},
		Bindings: []rabbitmq.Binding{
			{Queue: name, Exchange: name + ".topic", Key: "order.*"},
			{Queue: name + ".dead", Exchange: name, Key: "letters"},
		},
	}
	ch, err := broker(t).Dial(t).Channel()
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, topology.Declare(ch))
	}
	take := func(queue string) amqp.Delivery {
		d, ok, err := ch.Get(queue, false)
		require.NoError(t, err)
		require.True(t, ok, queue)
		return d
	}
	require.NoError(t, ch.Confirm(false))
	publish := func(exchange, key string) {
		c, err := ch.PublishWithDeferredConfirm(exchange, key, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent})
		require.NoError(t, err)
		require.True(t, c.Wait())
	}
	publish(name+".topic", "order.42")
	require.NoError(t, take(name).Reject(false))
	requireLetter := func() {
		require.Eventually(t, func() bool { _, ok, err := ch.Get(name+".dead", true); return ok && err == nil }, waitAtMost, tick)
	}
	requireLetter()
	publish("", name+".via")
	require.NoError(t, take(name+".via").Reject(false))
	requireLetter()
	_, _, err = ch.Get(name+".single", true)
	requireServer(t, err, amqp.ResourceLocked) // a queue with a single active consumer has no place for that
}

// TestTopologyErrors: the error names what the broker refused.
func TestTopologyErrors(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	for name, test := range map[string]struct {
		topology rabbitmq.Topology
		item     string
		code     int
	}{
		"another type": {rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: queue, Type: rabbitmq.Classic}}}, "queue \"" + queue + "\"", amqp.PreconditionFailed},
		"no exchange":  {rabbitmq.Topology{Bindings: []rabbitmq.Binding{{Queue: queue, Exchange: "none"}}}, "exchange \"none\"", amqp.NotFound},
		"reserved":     {rabbitmq.Topology{Exchanges: []rabbitmq.Exchange{{Name: "amq.mine"}}}, "exchange \"amq.mine\"", amqp.AccessRefused},
	} {
		t.Run(name, func(t *testing.T) {
			ch, err := node.Dial(t).Channel()
			require.NoError(t, err)
			err = test.topology.Declare(ch)
			var e *rabbitmq.TopologyError
			require.ErrorAs(t, err, &e)
			assert.Contains(t, e.Item, test.item)
			requireServer(t, err, test.code)
		})
	}
}

// TestDeliveryLimit: what comes back more often is a dead letter of the broker's.
func TestDeliveryLimit(t *testing.T) {
	name := rabbittest.Name(t)
	ch, err := broker(t).Dial(t).Channel()
	require.NoError(t, err)
	require.NoError(t, rabbitmq.Topology{Queues: []rabbitmq.Queue{
		{Name: name + ".dead"}, {Name: name, DeadLetterKey: name + ".dead", DeliveryLimit: 2}}}.Declare(ch))
	require.NoError(t, ch.PublishWithContext(t.Context(), "", name, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent}))
	for range 3 {
		require.Eventually(t, func() bool {
			d, ok, err := ch.Get(name, false)
			return err == nil && ok && d.Nack(false, true) == nil
		}, waitAtMost, tick)
	}
	require.Eventually(t, func() bool { _, ok, err := ch.Get(name+".dead", true); return ok && err == nil }, waitAtMost, tick)
}

func TestTopologyAnd(t *testing.T) {
	a := rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: "a"}}}
	b := rabbitmq.Topology{Exchanges: []rabbitmq.Exchange{{Name: "x"}}, Queues: []rabbitmq.Queue{{Name: "b"}}, Bindings: []rabbitmq.Binding{{Queue: "b", Exchange: "x"}}}
	assert.Equal(t, rabbitmq.Topology{Exchanges: b.Exchanges, Queues: []rabbitmq.Queue{{Name: "a"}, {Name: "b"}}, Bindings: b.Bindings}, a.And(b))
	assert.Len(t, a.Queues, 1)
}

// TestPublisherConfig: all that cannot work is named at once.
func TestPublisherConfig(t *testing.T) {
	_, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{
			URL: "http://localhost", Backoff: dispatcher.Backoff{Initial: -1, Max: -2}, AnswerTimeout: -3,
			Topology: rabbitmq.Topology{
				Exchanges: []rabbitmq.Exchange{{}},
				Queues: []rabbitmq.Queue{{Name: strings.Repeat("q", 256)}, {Name: "q", Type: "stream", Args: amqp.Table{"x-queue-type": "quorum", "x": struct{}{}}},
					{Name: "c", Type: rabbitmq.Classic, DeliveryLimit: 1}, {Name: "d", DeliveryLimit: 1, Args: amqp.Table{"x-delivery-limit": int32(2)}}},
				Bindings: []rabbitmq.Binding{{Queue: "q"}},
			},
		},
		Channels: -1, Window: 1 << 20, ConfirmTimeout: -1,
	})
	require.ErrorIs(t, err, rabbitmq.ErrConfig)
	for _, part := range []string{
		"URL is invalid", "Backoff.Initial is -1ns", "Backoff.Max is -2ns", "AnswerTimeout is -3ns", `queue "c": DeliveryLimit is for quorum`, `queue "d": DeliveryLimit and argument`, "Topology.Exchanges[0] has no name", "has 256 bytes",
		`type "stream" is unknown`, `argument "x-queue-type": use the field`, "arguments: ", `binding of queue "q" to exchange ""`,
		"Channels is -1", "Window is 1048576", "ConfirmTimeout is -1ns", "Route is nil",
	} {
		assert.ErrorContains(t, err, part)
	}
	_, err = rabbitmq.NewPublisher(rabbitmq.PublisherConfig{})
	assert.ErrorContains(t, err, "URL and Dial are empty")
}
