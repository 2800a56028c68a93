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
// begin's context ends with the channel; its error ends the consumer.
func Owner(begin func(ctx context.Context) (*ordering.Sequencer, error)) Receiver {
	return &owner{begin: begin}
}

type owner struct {
	begin func(ctx context.Context) (*ordering.Sequencer, error)
	cfg   ConsumerConfig // of the consumer

	mu struct {
		sync.Mutex // held while a term begins
		term       *term
	}
}

// term is a process's time as the owner of a queue.
type term struct {
	channel context.Context
	events  events
	ended   chan struct{} // closed when the sequencer has, or the grace is over
	over    chan struct{} // closed when no handler runs any more
}

func (o *owner) attach(cfg ConsumerConfig) error {
	o.cfg = cfg
	return nil
}

// Receive implements [Receiver].
func (o *owner) Receive(ctx context.Context, m amqp.Delivery, settle Settle) error {
	t, err := o.current(ctx)
	if err != nil {
		return err
	}
	if err = t.events.Receive(ctx, m, settle); errors.Is(err, ordering.ErrClosed) {
		<-ctx.Done() // which is why
		return context.Cause(ctx)
	}
	return err
}

// current returns the term of a channel, which may have to begin.
func (o *owner) current(channel context.Context) (*term, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.mu.term; t != nil {
		if t.channel == channel {
			return t, nil
		}
		select {
		case <-t.over:
		case <-channel.Done():
			return nil, context.Cause(channel)
		}
	}
	sequencer, err := o.begin(channel)
	if err != nil {
		return nil, err
	}
	t := &term{channel, events{sequencer}, make(chan struct{}), make(chan struct{})}
	o.mu.term = t
	context.AfterFunc(channel, func() { o.end(t) })
	return t, t.events.attach(o.cfg)
}

// end ends a term. Handlers that still run when the consumer's grace is over
// have their contexts ended.
func (o *owner) end(t *term) {
	defer close(t.over)
	ctx, cancel := context.WithTimeout(context.Background(), o.cfg.Grace)
	defer cancel()
	err := t.events.sequencer.Shutdown(ctx)
	close(t.ended)
	if errors.Is(err, dispatcher.ErrUnfinished) {
		o.cfg.Logger.Error("rabbitmq: the owner of a queue waits for handlers that do not end", "queue", o.cfg.Queue, "error", err)
		err = t.events.sequencer.Close()
	}
	if err != nil {
		o.cfg.Logger.Error("rabbitmq: the sequencer of a term ended with an error", "queue", o.cfg.Queue, "error", err)
	}
}

// finish waits until the last term has ended.
func (o *owner) finish() {
	o.mu.Lock()
	t := o.mu.term
	o.mu.Unlock()
	if t != nil {
		<-t.ended
	}
}
