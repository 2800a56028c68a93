package rabbitmq

import (
	"errors"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A quorum queue with a delivery limit drops a message, or publishes it to its
// dead-letter exchange, when it has returned more often than that. A lost channel
// counts; an unavailable store does not, since the message is kept. See
// [Consumer].

const (
	limitOf4  = 20 // the default of RabbitMQ 4
	manyTimes = 10 // the number of returns to warn about if no limit is known
)

// deliveryLimit returns the delivery limit of the consumer's queue, or 0 if there
// is none or it is unknown: it may be set by a policy.
func (c *Consumer) deliveryLimit(conn *amqp.Connection) int {
	for _, q := range c.cfg.Topology.Queues {
		if q.Name != c.cfg.Queue {
			continue
		}
		if q.queueType() != Quorum {
			return 0
		}
		if limit := q.limit(); limit != 0 {
			return max(limit, 0)
		}
	}
	version, _ := conn.Properties["version"].(string)
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 4 {
		return 0
	}
	return limitOf4
}

// lookAtLimit counts and logs messages that are near the limit.
func (w *consuming) lookAtLimit(m amqp.Delivery) {
	digits, ok := integer(m.Headers[deliveryCountHeader])
	if !ok {
		return
	}
	count, err := strconv.Atoi(digits)
	near := max(w.limit/2, 1)
	if w.limit == 0 {
		near = manyTimes
	}
	if err != nil || count < near {
		return
	}
	w.nearLimit.Add(1)
	w.rare.limit.say(func(missed int) {
		w.cfg.Logger.Warn("rabbitmq: a message has returned to its queue often: at the queue's delivery limit the broker drops it, or publishes it to the dead-letter exchange",
			append(namesOf(w.cfg.Queue, m), "came_back", count, "limit", w.limit, "not_logged", missed)...)
	})
}

// tellLost logs the loss of a channel with messages on it, if the queue has a
// delivery limit.
func (w *consuming) tellLost(reason error) {
	if n := w.deliveries.isOpen(); n > 0 && w.limit > 0 && w.stop.Err() == nil {
		w.rare.lost.say(func(missed int) {
			w.cfg.Logger.Warn("rabbitmq: a channel was lost: each of its messages returns once more, which counts for the queue's delivery limit",
				"queue", w.cfg.Queue, "messages", n, "limit", w.limit, "not_logged", missed, "err", reason)
		})
	}
}

// longestPause is the longest time before returned messages are consumed again.
const longestPause = time.Minute

// pause delays the next channel if this one is given up to return messages, and
// longer each time nothing was acknowledged on it, so that a lasting cause does
// not use up the messages' delivery limit soon.
func (c *Consumer) pause(err error, progress bool) error {
	if !errors.Is(err, errRequeued) && !passes(err) {
		return err
	}
	if progress {
		c.requeues = 0
	}
	c.requeues++
	delays := c.cfg.Backoff
	delays.Max = max(delays.Max, longestPause)
	return pause{err, delays.Wait(c.requeues)}
}
