package rabbitmq_test

import (
	"context"
	"net"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher/rabbitmq"
)

// TestDial: connecting ends with its context, whatever the broker does.
func TestDial(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	require.NoError(t, err)
	defer silent.Close()
	dial := rabbitmq.Dial("amqp://"+silent.Addr().String(), amqp.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = dial(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	dial = rabbitmq.Dial("amqp://127.0.0.1:1", amqp.Config{})
	_, err = dial(t.Context())
	require.ErrorContains(t, err, "connection refused")

	properties := amqp.Table{"connection_name": "test"}
	conn, err := rabbitmq.Dial(broker(t).URL(), amqp.Config{Properties: properties})(t.Context())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	assert.Len(t, properties, 1, "the caller's own are left alone")
}

// TestRecovery: connections that reconnect by themselves are not accepted.
func TestRecovery(t *testing.T) {
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{Dial: rabbitmq.Dial(broker(t).URL(), amqp.Config{Recovery: &amqp.Recovery{}})},
		Route:    toQueue("q"),
	})
	require.ErrorIs(t, publishNow(t, p, event("7", 1)), rabbitmq.ErrRecovery)
}

// TestTopologyAgain: what was deleted while there was no connection is declared
// again; and what has become different meanwhile does not end the publisher.
func TestTopologyAgain(t *testing.T) {
	node := broker(t)
	link := node.Link(t)
	queue := newQueue(t, node, rabbitmq.Queue{Type: rabbitmq.Classic})
	ch, err := node.Dial(t).Channel()
	require.NoError(t, err)
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: link.URL(), Topology: rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: queue, Type: rabbitmq.Classic}}}},
		Route:    toQueue(queue),
	})
	require.NoError(t, publishNow(t, p, event("7", 1)))

	link.Cut()
	_, err = ch.QueueDelete(queue, false, false, false)
	require.NoError(t, err)
	link.Mend()
	require.NoError(t, publishNow(t, p, event("7", 2)))

	link.Cut()
	_, err = ch.QueueDelete(queue, false, false, false)
	require.NoError(t, err)
	require.NoError(t, rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: queue}}}.Declare(ch))
	link.Mend()
	hasty, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Publish(hasty, event("7", 3)), rabbitmq.ErrNotSent)
	_, err = ch.QueueDelete(queue, false, false, false)
	require.NoError(t, err)
	require.NoError(t, publishNow(t, p, event("7", 4)))
}
