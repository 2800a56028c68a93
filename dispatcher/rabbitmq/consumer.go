package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"
)

// Receiver takes the messages of a consumer; see [Events] and [Messages].
type Receiver interface {
	// Receive takes a message, and has settle called once with what is to
	// become of it; that may be long after Receive has returned. Messages
	// come one at a time, in the order of the queue, and the next one does
	// not come before Receive has returned. It should return soon when ctx
	// ends: with the channel, or when the consumer is to stop.
	//
	// An error means that the message was not taken, and that settle is not
	// called: that of ctx once it has ended, or one with which the consumer
	// ends; then the message goes back to the queue. Or it passes, being a
	// [*ordering.StoreError] or [dispatcher.ErrTooManyParked]: then the same
	// message is given to Receive again, after a back-off. A panic counts as an error, a [*dispatcher.PanicError].
	//
	// A receiver may be wrapped around one of this package's. It passes ctx on,
	// or a context made from it, by which they know their consumer.
	//
	// The message's own methods for acknowledging it do not work.
	Receive(ctx context.Context, m amqp.Delivery, settle Settle) error
}

// Consumer gives the messages of a queue to a [Receiver] and acknowledges each
// when its effect is durable. Make one with [NewConsumer]; its methods may be
// called from any number of goroutines at once.
type Consumer struct {
	cfg      ConsumerConfig
	link     *link
	running  atomic.Bool
	terms    sync.WaitGroup             // those of an Owner that have not ended
	returns  backoff.ExponentialBackOff // of the goroutine in Run; see pause
	stuck    stuck
	obstacle atomic.Pointer[error] // why a message is not taken now, while it waits
	rare     struct{ letter, stuck, left, limit, lost, obstacle seldom }

	connected                                             atomic.Bool
	received, acked, deadLettered, returned, late, epochs atomic.Uint64
	leftOut, nearLimit                                    atomic.Uint64
	open                                                  atomic.Int64
}

// ConsumerStats counts what a consumer has done since it was made.
type ConsumerStats struct {
	Connected    bool   // it consumes at the moment
	Epochs       uint64 // how often it began to consume: one more than its reconnections
	Received     uint64 // messages, redeliveries too
	Acked        uint64 // those that were settled as done, or as dead letters
	DeadLettered uint64 // of those
	Returned     uint64 // left to the broker
	Late         uint64 // settled when their channel was gone, so that it had no effect
	Open         int    // received and not settled
	Stuck        int    // of those, dead letters that are not taken where they are to go
	LeftOut      uint64 // headers and properties that no event can hold, no client can read, or no dead letter has room for
	NearLimit    uint64 // messages that came though half of their queue's delivery limit was used up
}

// NewConsumer makes a consumer. The error wraps [ErrConfig].
func NewConsumer(cfg ConsumerConfig) (*Consumer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Consumer{cfg: cfg, link: newLink(cfg.Endpoint)}
	c.returns = backoff.ExponentialBackOff{
		InitialInterval: cfg.MinBackoff, MaxInterval: max(longestPause, cfg.MaxBackoff),
		RandomizationFactor: backoff.DefaultRandomizationFactor, Multiplier: backoff.DefaultMultiplier,
	}
	c.returns.Reset()
	c.link.logger = cfg.Logger.With("queue", cfg.Queue)
	return c, nil
}

// Run consumes until ctx ends, through everything that the broker and the
// network do: it reconnects, with back-off, and goes on where it was.
//
// When ctx ends, the receiver gets no more messages. Run waits until those that
// it has are settled, [ConsumerConfig.Grace] at most, acknowledges them, and
// closes the connection. Only then does the broker put all others back, in their
// order, and give any to another consumer of a single-active queue. So shut the
// receiver's sequencer or dispatcher down as soon as ctx has ended, which [Owner]
// does by itself: it finishes what runs and gives back what does not. Run
// returns nil then, or an error that wraps [ErrGrace] if some were not settled
// in time.
//
// Other errors are that of the receiver, or of its sequencer or dispatcher if
// that was stopped by a failure; a [*PoisonError], a [*TopologyError] for a queue
// that cannot be declared as it is wanted, and [ErrRunning].
func (c *Consumer) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer c.running.Store(false)
	alive, end := context.WithCancel(context.WithoutCancel(ctx)) // until everything is settled
	defer end()
	var life sync.Mutex // held while there is a connection to finish with
	stop := context.AfterFunc(ctx, func() {
		life.Lock()
		defer life.Unlock()
		end()
	})
	defer stop()
	letters := newDeadLetters(c)
	defer letters.close()
	defer c.terms.Wait()
	var late error
	err := c.link.run(alive, func(connected context.Context, conn *amqp.Connection) error {
		life.Lock()
		defer life.Unlock()
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
	return ConsumerStats{
		Connected: c.connected.Load(), Epochs: c.epochs.Load(), Received: c.received.Load(), Acked: c.acked.Load(),
		DeadLettered: c.deadLettered.Load(), Returned: c.returned.Load(), Late: c.late.Load(), Open: int(c.open.Load()),
		Stuck: c.stuck.count(), LeftOut: c.leftOut.Load(), NearLimit: c.nearLimit.Load(),
	}
}

// window is how many messages the broker sends ahead.
func (c *Consumer) window(wide bool) int {
	if !wide {
		return c.cfg.Prefetch
	}
	return min(c.cfg.Prefetch+c.cfg.MaxStuck, mostPrefetch)
}

// Ready returns nil while the consumer consumes, for readiness checks. Otherwise
// the error wraps why it does not, as far as that is known: an [*amqp.Error] of
// the broker's, or the [*ordering.StoreError] or [dispatcher.ErrTooManyParked] for
// which a message waits. While
// dead letters are not taken, though the consumer may go on with others, it is a
// [*StuckError].
func (c *Consumer) Ready() error {
	if !c.connected.Load() {
		return because(fmt.Errorf("rabbitmq: queue %s is not being consumed", c.cfg.Queue), c.link.why())
	}
	if err := c.obstacle.Load(); err != nil {
		return fmt.Errorf("rabbitmq: queue %s waits: %w", c.cfg.Queue, *err)
	}
	return c.stuck.trouble(&c.cfg)
}
