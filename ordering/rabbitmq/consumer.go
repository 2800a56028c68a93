package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Receiver processes the messages of a consumer; see [Events] and [Messages].
type Receiver interface {
	// Receive takes a message, and calls settle once with its settlement,
	// possibly long after Receive has returned. It is called for one message at
	// a time, in the order of the queue. It should return soon when ctx ends:
	// with the channel, or when the consumer stops.
	//
	// An error means that the message was not accepted, and that settle is not
	// called. A temporary error, a [*ordering.StoreError] or
	// [dispatcher.ErrTooManyParked], makes the consumer pass the same message
	// to Receive again, after a back-off. After the error of ctx, or any other
	// error, which ends the consumer, the message goes back to the queue. A
	// panic counts as an error, a [*dispatcher.PanicError].
	//
	// A receiver may wrap one of this package. It must pass on ctx, or a
	// context derived from it, which identifies the consumer.
	//
	// The message's own methods for acknowledging it do not work.
	Receive(ctx context.Context, m amqp.Delivery, settle Settle) error
}

// Consumer passes the messages of a queue to a [Receiver] and acknowledges each
// when its effect is durable. Make one with [NewConsumer]; its methods are safe
// for concurrent use.
type Consumer struct {
	cfg      ConsumerConfig
	link     *link
	running  atomic.Bool
	terms    sync.WaitGroup // terms of an Owner that have not ended
	requeues int            // channels in a row given up without progress; only for the goroutine in Run, see pause
	stuck    stuck
	obstacle atomic.Pointer[error] // why a message cannot be accepted now, while it waits
	rare     struct{ letter, stuck, left, limit, lost, obstacle seldom }

	connected                                              atomic.Bool
	received, done, deadLettered, requeued, late, channels atomic.Uint64 // each settled message is counted once
	leftOut, nearLimit                                     atomic.Uint64
	open                                                   atomic.Int64
}

// ConsumerStats counts what a consumer has done since it was made.
type ConsumerStats struct {
	Connected    bool   // it consumes at the moment
	Channels     uint64 // channels consumed on so far, one after the other
	Received     uint64 // messages, including redeliveries
	Acked        uint64 // messages settled as done or as dead letters
	DeadLettered uint64 // of those, dead letters
	Requeued     uint64 // messages left to the broker for redelivery
	Late         uint64 // messages settled after their channel was lost, without effect
	Open         int    // messages received and not settled
	Stuck        int    // of those, dead letters that cannot be published
	LeftOut      uint64 // headers and properties left out: an event cannot hold them, the client cannot read them, or a dead letter has no room
	NearLimit    uint64 // messages received with half of their queue's delivery limit used up
}

// NewConsumer makes a consumer. The error wraps [ErrConfig].
func NewConsumer(cfg ConsumerConfig) (*Consumer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Consumer{cfg: cfg, link: newLink(cfg.Endpoint)}
	c.link.logger = cfg.Logger.With("queue", cfg.Queue)
	return c, nil
}

// Run consumes until ctx ends. After failures of the broker or the network it
// reconnects, with back-off, and continues.
//
// When ctx ends, the receiver gets no more messages. Run waits until those that
// it has are settled, for at most [ConsumerConfig.Grace], acknowledges them,
// and closes the connection. Only then does the broker return all others to the
// queue, in order, and deliver any to another consumer of a single-active
// queue. So shut down the receiver's sequencer or dispatcher as soon as ctx has
// ended ([Owner] does so itself): it finishes running messages and gives back
// the others. Run returns nil then, or an error that wraps [ErrGrace] if some
// were not settled in time.
//
// Other errors are that of the receiver, that of its sequencer or dispatcher if
// this was stopped by a failure, a [*PoisonError], a [*TopologyError] for a
// queue that cannot be declared as configured, and [ErrRunning].
func (c *Consumer) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer c.running.Store(false)
	alive, end := context.WithCancel(context.WithoutCancel(ctx)) // until everything is settled
	defer end()
	var finishing sync.Mutex // held while there is a connection to finish with
	stop := context.AfterFunc(ctx, func() {
		finishing.Lock()
		defer finishing.Unlock()
		end()
	})
	defer stop()
	letters := newDeadLetters(c)
	defer letters.close()
	defer c.terms.Wait()
	var late error
	err := c.link.run(alive, func(connected context.Context, conn *amqp.Connection) error {
		finishing.Lock()
		defer finishing.Unlock()
		if ctx.Err() != nil {
			return nil
		}
		err := c.consume(ctx, connected, conn, letters)
		if ctx.Err() != nil {
			end()
		}
		if errors.Is(err, ErrGrace) {
			late, err = err, nil
		}
		return err
	})
	return errors.Join(err, late)
}

// Stats returns the counts at this moment.
func (c *Consumer) Stats() ConsumerStats {
	done, deadLettered := c.done.Load(), c.deadLettered.Load()
	return ConsumerStats{
		Connected: c.connected.Load(), Channels: c.channels.Load(), Received: c.received.Load(), Acked: done + deadLettered,
		DeadLettered: deadLettered, Requeued: c.requeued.Load(), Late: c.late.Load(), Open: int(c.open.Load()),
		Stuck: c.stuck.count(), LeftOut: c.leftOut.Load(), NearLimit: c.nearLimit.Load(),
	}
}

// window returns the number of unacknowledged messages that the broker sends.
func (c *Consumer) window(wide bool) int {
	if !wide {
		return c.cfg.Prefetch
	}
	return min(c.cfg.Prefetch+c.cfg.MaxStuck, mostPrefetch)
}

// Ready returns nil while the consumer consumes, for readiness checks.
// Otherwise the error wraps the reason, as far as known: an [*amqp.Error] of
// the broker, or the [*ordering.StoreError] or [dispatcher.ErrTooManyParked]
// for which a message waits. It is a [*StuckError] while dead letters cannot be
// published, even if the consumer goes on with other messages.
func (c *Consumer) Ready() error {
	if !c.connected.Load() {
		return because(fmt.Errorf("rabbitmq: queue %s is not being consumed", c.cfg.Queue), c.link.why())
	}
	if err := c.obstacle.Load(); err != nil {
		return fmt.Errorf("rabbitmq: queue %s waits: %w", c.cfg.Queue, *err)
	}
	return c.stuck.trouble(&c.cfg)
}
