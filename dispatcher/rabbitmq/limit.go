package rabbitmq

import (
	"errors"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A quorum queue with a delivery limit drops a message, or makes it a dead letter
// of the broker's, when it has come back more often than that. A lost channel
// counts, a store that is away does not: the message is kept. See [Consumer].

const (
	limitOf4  = 20 // that of RabbitMQ 4, if nothing else is declared
	manyTimes = 10 // where no limit is known
)

// deliveryLimit returns the delivery limit of the consumer's queue, or 0 if it
// has none or that is not known: it may be set by a policy.
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
		w.cfg.Logger.Warn("rabbitmq: a message has come back often: at its queue's delivery limit the broker drops it, or makes it a dead letter",
			append(namesOf(w.cfg.Queue, m), "came_back", count, "limit", w.limit, "not_logged", missed)...)
	})
}

// tellLost tells that a channel was lost with messages on it, where that counts.
func (w *consuming) tellLost(reason error) {
	if n := w.epoch.isOpen(); n > 0 && w.limit > 0 && w.stop.Err() == nil {
		w.rare.lost.say(func(missed int) {
			w.cfg.Logger.Warn("rabbitmq: a channel is lost: each message on it comes back once more, which counts for the queue's delivery limit",
				"queue", w.cfg.Queue, "messages", n, "limit", w.limit, "not_logged", missed, "error", reason)
		})
	}
}

// longestPause is the longest time until messages that were returned are taken
// again, while that leads to nothing.
const longestPause = time.Minute

// pause lets the next channel wait if this one is given up to return messages,
// longer each time that nothing was acknowledged on it, so that a cause that
// lasts does not use up the messages' delivery limit soon.
func (c *Consumer) pause(err error, progress bool) error {
	if !errors.Is(err, errReturned) && !passes(err) {
		return err
	}
	if progress {
		c.returns.Reset()
	}
	return pause{err, c.returns.NextBackOff()}
}
