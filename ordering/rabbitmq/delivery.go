package rabbitmq

import (
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// delivery is a message that the receiver has.
type delivery struct {
	*consuming
	message amqp.Delivery
	settled atomic.Bool
}

// settle is the delivery's [Settle].
func (d *delivery) settle(s Settlement) {
	if d.settled.Swap(true) {
		d.cfg.Logger.Error("rabbitmq: a receiver has settled a message twice", "queue", d.cfg.Queue, "message", d.message.MessageId)
		return
	}
	tag := d.message.DeliveryTag
	switch {
	case s.verdict == deadLetter && d.letters == nil:
		d.leave(tag, Requeue())
		d.end(fatal{&PoisonError{Queue: d.cfg.Queue, MessageID: d.message.MessageId, Err: s.reason}})
	case s.verdict == deadLetter:
		d.rare.letter.say(func(missed int) {
			d.cfg.Logger.Warn("rabbitmq: a message cannot be processed and becomes a dead letter", append(d.names(), "not_logged", missed, "err", reasonText(s.reason))...)
		})
		d.letters.publish(d, s.reason)
	default:
		d.leave(tag, s)
		if s.verdict == requeue && d.stop.Err() == nil {
			d.end(errRequeued)
		}
	}
}

// names returns log attributes that identify the message.
func (d *delivery) names() []any { return namesOf(d.cfg.Queue, d.message) }

func namesOf(queue string, m amqp.Delivery) []any {
	return []any{"queue", queue, "message", m.MessageId, "tag", m.DeliveryTag, "exchange", m.Exchange, "key", m.RoutingKey}
}

// leave settles a delivery.
func (w *consuming) leave(tag uint64, s Settlement) {
	w.open.Add(-1)
	switch inTime := w.deliveries.leave(tag, s.verdict != requeue); {
	case s.verdict == requeue:
		w.requeued.Add(1)
	case !inTime:
		w.late.Add(1)
	case s.verdict == deadLetter:
		w.deadLettered.Add(1)
	default:
		w.done.Add(1)
	}
}

// look reports what is unusual about a message: many returns, or dropped headers.
func (w *consuming) look(m amqp.Delivery) {
	w.lookAtLimit(m)
	if names, has := m.Headers[DroppedHeader].(string); has {
		w.tellLeft(m, names)
	}
}

// mostParts is the largest number of parts of a message named in a log line.
const mostParts = 20

// tellLeft counts and logs the parts of a message that are left out.
func (c *Consumer) tellLeft(m amqp.Delivery, parts ...string) {
	if len(parts) == 0 {
		return
	}
	c.leftOut.Add(uint64(len(parts)))
	c.rare.left.say(func(missed int) {
		c.cfg.Logger.Warn("rabbitmq: parts of a message cannot be read or held, and are left out",
			append(namesOf(c.cfg.Queue, m), "count", len(parts), "parts", parts[:min(len(parts), mostParts)], "not_logged", missed)...)
	})
}
