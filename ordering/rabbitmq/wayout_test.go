package rabbitmq_test

import (
	"context"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// What is acknowledged right before a consumer stops does not come again: a
// quorum queue forgets some of it when the channel is closed at once, if many are
// acknowledged one by one.
func TestTheLastAcknowledgementsCount(t *testing.T) {
	for range 10 {
		const n = 200
		d := newDesk(t, rabbitmq.Queue{})
		for range n {
			d.send("1", "a=1", "")
		}
		var all []rabbitmq.Settle
		full := make(chan struct{})
		s := d.consume(rabbitmq.ConsumerConfig{Receiver: receiver(func(_ context.Context, _ amqp.Delivery, settle rabbitmq.Settle) error {
			if all = append(all, settle); len(all) == n {
				close(full)
			}
			return nil
		})})
		<-full
		s.stop()
		for _, settle := range all[1:] { // one by one, since the first is not
			settle(rabbitmq.Ack())
		}
		all[0](rabbitmq.Requeue())
		require.NoError(t, <-s.done)
		require.Eventually(t, func() bool { return d.left(d.queue) > 0 }, waitAtMost, tick)
		require.Equal(t, 1, d.left(d.queue))
	}
}
