package rabbitmq

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// acksTake is the time for a quorum queue to process acknowledgements that its
// channel has received. The channel of RabbitMQ 3.10 passes some of them on only
// when others are on disk, and loses these when it is closed, even properly: 60 %
// of those sent one by one right before. No round trip on the channel waits for
// that, except basic.cancel, which activates another consumer of a single-active
// queue too early. After 20 ms none was lost. A broker that is slow to answer gets
// more time.
const acksTake = 100 * time.Millisecond

// wayOut sends the remaining acknowledgements, and returns when the broker can be
// expected to have processed them. Nothing is settled any more.
func (w *consuming) wayOut(ch *amqp.Channel, conn *amqp.Connection) error {
	if ch.IsClosed() {
		return nil
	}
	if err := w.deliveries.acknowledge(true); err != nil {
		return err
	}
	asked := time.Now()
	if asked.Sub(w.deliveries.last) > closeTimeout {
		return nil
	}
	ctx := context.WithoutCancel(w.alive)
	err := answered(ctx, closeTimeout, conn, func() error { return ch.Qos(w.cfg.Prefetch, 0, false) }) // its answer comes after the acknowledgements were received
	if err == nil {
		sleep(ctx, max(acksTake, 10*time.Since(asked)))
	}
	return err
}
