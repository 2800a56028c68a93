package rabbitmq

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// acksTake is how long a quorum queue may take until it knows of an
// acknowledgement that its channel has taken in. The channel of RabbitMQ 3.10
// hands some of them over only when others are on disk, and forgets those when it
// is closed, however politely: 60 % of those that were sent one by one right
// before. No round trip on the channel waits for that, except for basic.cancel,
// which lets another consumer of a single-active queue begin too early. After
// 20 ms none was forgotten. A broker that is slow to answer gets more time.
const acksTake = 100 * time.Millisecond

// wayOut acknowledges what is left, and returns when the broker can be expected
// to know. Nothing is settled any more.
func (w *consuming) wayOut(ch *amqp.Channel, conn *amqp.Connection) error {
	if ch.IsClosed() {
		return nil
	}
	if _, err := w.epoch.acknowledge(nil); err != nil {
		return err
	}
	asked := time.Now()
	if asked.Sub(w.epoch.last) > closeTimeout {
		return nil
	}
	ctx := context.WithoutCancel(w.alive)
	err := answered(ctx, closeTimeout, conn, func() error { return ch.Qos(w.cfg.Prefetch, 0, false) }) // it has come so far
	if err == nil {
		sleep(ctx, max(acksTake, 10*time.Since(asked)))
	}
	return err
}
