package rabbitmq

import (
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// RootDepth is the number of segments of a key that decide its partition: a kind
// and a name, as in client/42. All keys below have the same partition.
const RootDepth = 2

// Partition returns the partition of a key, of n ones, from 0 to n-1. It is the
// same in every process, on every platform, and in every version of this package,
// and for all keys with the same first [RootDepth] segments. If n grows by one,
// one key in n+1 moves, to the new partition. An n below 1 counts as 1.
//
// It is the jump consistent hash of J. Lamping and E. Veach, "A Fast, Minimal
// Memory, Consistent Hash Algorithm" (2014), arXiv:1406.2294, of the 64-bit
// FNV-1a hash of those segments, with a zero byte between any two. RabbitMQ's
// own exchange for this, x-consistent-hash, moves keys when the broker is
// restarted.
func Partition(key lockkeys.Key, n int) int { return jump(rootHash(key), n) }

// ErrSpansPartitions is wrapped by the errors for events that are in several
// partitions.
var ErrSpansPartitions = errors.New("rabbitmq: the event has streams in several partitions")

// PartitionOf returns the partition of an event: that of all its streams. Order
// cannot be kept between partitions, each with a queue and a consumer of its own;
// so for an event with streams in several, the error wraps [ErrSpansPartitions]
// and is marked by [dispatcher.Permanent]. If events are committed before they
// are published, refuse them before that, with [Partitions.Check].
func PartitionOf(e *ordering.Event, n int) (int, error) {
	if len(e.Positions) == 0 {
		return 0, dispatcher.Permanent(&ordering.EventError{ID: e.ID, Reason: ordering.ErrNoPosition})
	}
	first := Partition(e.Positions[0].Stream, n)
	for _, p := range e.Positions[1:] {
		if other := Partition(p.Stream, n); other != first {
			return 0, dispatcher.Permanent(fmt.Errorf("%w: event %.80q: %s is in %d of %d, %s in %d: "+
				"give the streams their first %d segments in common, send one event to each, or have one partition",
				ErrSpansPartitions, e.Name(), e.Positions[0].Stream, first, n, p.Stream, other, RootDepth))
		}
	}
	return first, nil
}

// Partitions describes the queues of a service that runs in several processes.
// Each queue has one active consumer, and the others wait, so the events of a key
// are processed in one process at a time, in order.
//
// Do not change the number of partitions while there are messages in the queues:
// keys move, and messages in the old queue may be overtaken.
type Partitions struct {
	// Prefix is the beginning of the queues' names: with "orders" they are
	// orders.0, orders.1 and so on.
	Prefix string
	// Count is the number of queues. Less than 1 counts as 1.
	Count int
	// Queue is the declaration of all of them; its Name is ignored, and
	// SingleActive is always on.
	Queue Queue
}

// QueueName returns the name of the queue of a partition.
func (p Partitions) QueueName(partition int) string { return fmt.Sprintf("%s.%d", p.Prefix, partition) }

// Topology returns the queues of all partitions.
func (p Partitions) Topology() Topology {
	queues := make([]Queue, max(p.Count, 1))
	for i := range queues {
		queues[i] = p.Queue
		queues[i].Name, queues[i].SingleActive = p.QueueName(i), true
	}
	return Topology{Queues: queues}
}

// Route routes an event to the queue of its partition, through the default
// exchange; see [PublisherConfig]. The error is that of [PartitionOf].
func (p Partitions) Route(e *ordering.Event) (exchange, key string, err error) {
	partition, err := PartitionOf(e, max(p.Count, 1))
	if err != nil {
		return "", "", err
	}
	return "", p.QueueName(partition), nil
}

// Check returns the error with which a [Publisher] with this Route would refuse
// the event for good: it is in several partitions, or no message can hold it, in
// frames of RabbitMQ's usual 128 KiB. Where events are committed before they are
// published, call it before the commit:
//
//	outbox.New(ctx, db, outbox.PostgreSQL, outbox.Config{Check: parts.Check})
//
// It does not know the limits of the queues, nor the broker's for a body.
func (p Partitions) Check(e *ordering.Event) error {
	if err := canBeSent(e); err != nil {
		return err
	}
	exchange, key, err := p.Route(e)
	if err != nil {
		return err
	}
	const usualFrame = 128 << 10
	m := message{exchange: exchange, key: key, Publishing: Message(e)}
	if err = m.measure(); err == nil {
		err = m.fits(usualFrame)
	}
	return dispatcher.Permanent(err)
}

// Owns returns a function that reports whether a stream is in the partition, for
// the sequencer of its queue: see [ordering.Config].
func (p Partitions) Owns(partition int) func(stream lockkeys.Key) bool {
	return func(stream lockkeys.Key) bool { return Partition(stream, p.Count) == partition }
}

// rootHash is the 64-bit FNV-1a hash of a key's first RootDepth segments, with
// a zero byte between any two.
func rootHash(key lockkeys.Key) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	hash, depth := uint64(offset), 0
	for segment := range key.Segments() {
		if depth == RootDepth {
			break
		}
		if depth > 0 {
			hash *= prime // for the zero byte
		}
		for _, b := range []byte(segment) {
			hash = (hash ^ uint64(b)) * prime
		}
		depth++
	}
	return hash
}

// jump is the jump consistent hash.
func jump(key uint64, n int) int {
	var bucket, next int64 = -1, 0
	for next < int64(n) {
		bucket = next
		key = key*2862933555777941757 + 1
		next = int64(float64(bucket+1) * (float64(1<<31) / float64(key>>33+1)))
	}
	return int(max(bucket, 0))
}
