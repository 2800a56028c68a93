package backup_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/replay/backup"
)

// A RabbitMQ node is killed with what it has confirmed, while its consumer is
// elsewhere. No event comes after these, and there is nobody to ask: the consumer
// gets them over HTTP while the node is dead, in order, and when that is back
// what is in its queue changes nothing.
func TestResendWhatADeadBrokerHas(t *testing.T) {
	const streams, each = 10, 20
	node := rabbittest.Start(t)
	queue := rabbittest.Name(t)
	endpoint := rabbitmq.Endpoint{URL: node.URL(), Topology: rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: queue, Type: rabbitmq.Classic}}}}
	broker, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{
		Endpoint: endpoint,
		Route:    func(*ordering.Event) (exchange, key string, err error) { return "", queue, nil },
	})
	require.NoError(t, err)
	defer func() { assert.NoError(t, broker.Close()) }()
	soon(t, func() bool { return broker.Ready() == nil }, "there is a connection")
	require.NoError(t, node.Sync())

	seq, j := sequencer(t, ordering.Config[*ordering.Event]{GapTimeout: time.Hour, MaxEarlyTotal: 100})
	c := client(t, serve(t, handler(t, backup.HandlerConfig{Sink: seq})), backup.ClientConfig{})
	publisher, err := backup.NewPublisher(backup.PublisherConfig{
		Primary: broker, Backup: c, Alive: broker.Alive, Timeout: time.Minute, Resend: 1000})
	require.NoError(t, err)
	defer func() { assert.NoError(t, publisher.Close()) }()
	stream := func(i int) lockkeys.Key { return lockkeys.Must("order", fmt.Sprint(i)) }
	for n := range uint64(each) {
		for i := range streams {
			e := event(n + 1)
			e.ID, e.Positions[0].Stream = "", stream(i)
			require.NoError(t, publisher.Publish(t.Context(), e))
		}
	}
	require.EqualValues(t, streams*each, publisher.Stats().Primary)

	require.NoError(t, node.Kill())
	soon(t, func() bool { return publisher.Stats().Resent == streams*each }, "all were sent again")
	expect := func() {
		for i := range streams {
			assert.Equal(t, upTo(each), j.of(stream(i)))
		}
	}
	expect()

	require.NoError(t, node.Restart())
	consumer, err := rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{
		Endpoint: endpoint, Queue: queue, Receiver: rabbitmq.Events(seq), Prefetch: 256})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	soon(t, func() bool { return consumer.Stats().Acked == streams*each }, "the queue is empty")
	cancel()
	require.NoError(t, <-ended)
	expect()
}
