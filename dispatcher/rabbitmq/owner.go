package rabbitmq

import (
	"context"
	"errors"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
)

// Owner returns a receiver for a queue that several processes consume, one at a
// time: a single-active queue, of a partition for example, with a store that
// they share. It is for one consumer.
//
// Each life of the consumer's channel is a term of the process, with a
// sequencer of its own, which begin makes for the first message. What a
// sequencer of an earlier term knows of the streams would be wrong: another
// process may have been the owner meanwhile and have moved them on. A term ends
// with the channel, or when the consumer is to stop: what runs comes to its end,
// all else goes back to the queue, and no handler of the next term starts
// before. Nobody else should use or end the sequencer; who wants to operate on
// what is parked can do so by the store.
//
// A term does not begin before there is a message, since only that tells that
// the process is the owner. So what the store holds of the queue's streams waits
// for the next message, too.
//
// begin's context ends with the channel; its error ends the consumer, unless it
// is a [*ordering.StoreError]: then begin is called again after a back-off, on the
// same channel. A consumer with a priority is refused; see the package's section
// on several processes.
func Owner(begin func(ctx context.Context) (*ordering.Sequencer, error)) Receiver {
	return &owner{begin: begin}
}

type owner struct {
	begin func(ctx context.Context) (*ordering.Sequencer, error)

	mu struct {
		sync.Mutex // held while a term begins
		term       *term
	}
}

// term is a process's time as the owner of a queue.
type term struct {
	channel *consuming
	events  events
	over    chan struct{} // closed when no handler runs any more
}

// errStranger: a receiver that is wrapped around an owner has another context.
var errStranger = errors.New("rabbitmq: Owner was called without its consumer's context: pass on what Receive is given, or a context made from it")

// errPriority: RabbitMQ 4 lets a consumer of higher priority be the active one of
// a queue at once, while the one before still works on what it has.
var errPriority = errors.New("rabbitmq: an Owner must not have a priority, since it may begin before the owner of the queue has ended")

// Receive implements [Receiver].
func (o *owner) Receive(ctx context.Context, m amqp.Delivery, settle Settle) error {
	channel := consumingOf(ctx)
	if channel == nil {
		return errStranger
	}
	if _, has := channel.cfg.Args[argPriority]; has {
		return errPriority
	}
	t, err := o.current(ctx, channel)
	if err != nil {
		return err
	}
	return t.events.Receive(ctx, m, settle)
}

// current returns the term of a channel, which may have to begin.
func (o *owner) current(ctx context.Context, channel *consuming) (*term, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.mu.term; t != nil {
		if t.channel == channel {
			return t, nil
		}
		select {
		case <-t.over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	sequencer, err := o.begin(channel.receiving)
	if err != nil {
		return nil, err
	}
	t := &term{channel, events{sequencer}, make(chan struct{})}
	o.mu.term = t
	channel.terms.Add(1)
	context.AfterFunc(channel.receiving, t.end)
	return t, nil
}

// end ends a term. Handlers that still run when the consumer's grace is over
// have their contexts ended, and the consumer does not wait for them.
func (t *term) end() {
	defer close(t.over)
	cfg := t.channel.cfg
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Grace)
	defer cancel()
	err := t.events.sequencer.Shutdown(ctx)
	t.channel.terms.Done()
	if errors.Is(err, dispatcher.ErrUnfinished) {
		cfg.Logger.Error("rabbitmq: the owner of a queue waits for handlers that do not end", "queue", cfg.Queue, "error", err)
		err = t.events.sequencer.Close()
	}
	if err != nil {
		cfg.Logger.Error("rabbitmq: the sequencer of a term ended with an error", "queue", cfg.Queue, "error", err)
	}
}
