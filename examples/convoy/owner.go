package main

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher/rabbitmq"
	"github.com/interlock-go/interlock/ordering"
)

// Bounds of what a queue's owner has in hand.
const (
	prefetch    = 128
	maxEarly    = prefetch / 2     // events that may wait for earlier ones
	endTimeout  = 10 * time.Second // for handlers that run, when the owner leaves
	graceForAll = 2 * endTimeout
)

// owner receives the events of a single-active queue, of which this process is
// the owner whenever the broker gives it messages.
//
// Invariant: each life of the consumer's channel has a sequencer of its own, a
// term, which begins with the first message. When a channel is lost, another
// process may own the queue for a while and move its streams on; what a
// sequencer from before remembers of them would be wrong then.
type owner struct {
	begin func(ctx context.Context) (*ordering.Sequencer, error)

	mu struct {
		sync.Mutex // held while a term begins
		term       *term
		left       bool
	}
}

type term struct {
	channel   context.Context // ends with the consumer's channel
	sequencer *ordering.Sequencer
	events    rabbitmq.Receiver
}

// consume gives the events of a queue to the owner until ctx ends. Then what
// runs is finished and acknowledged, the channel is closed, and only then does
// the broker make another process the owner.
func (o *owner) consume(ctx context.Context, cfg rabbitmq.ConsumerConfig) error {
	cfg.Receiver, cfg.Prefetch, cfg.Grace = o, prefetch, graceForAll
	consumer, err := rabbitmq.NewConsumer(cfg)
	if err != nil {
		return err
	}
	leaving := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { leaving <- o.leave() })
	err = consumer.Run(ctx)
	if stop() { // it ended by itself
		leaving <- o.leave()
	}
	return errors.Join(err, <-leaving)
}

// Receive implements [rabbitmq.Receiver].
func (o *owner) Receive(ctx context.Context, m amqp.Delivery, settle rabbitmq.Settle) error {
	t, err := o.current(ctx)
	if err == nil {
		err = t.events.Receive(ctx, m, settle)
	}
	if errors.Is(err, ordering.ErrClosed) { // the owner leaves, and ctx is about to end for that
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return err
}

// current returns the term of the channel, which may have to begin.
func (o *owner) current(channel context.Context) (*term, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.left {
		return nil, ordering.ErrClosed
	}
	if t := o.mu.term; t != nil {
		if t.channel.Err() == nil {
			return t, nil
		}
		if err := t.sequencer.Shutdown(channel); err != nil {
			return nil, err
		}
		o.mu.term = nil
	}
	sequencer, err := o.begin(channel)
	if err != nil {
		return nil, err
	}
	o.mu.term = &term{channel, sequencer, rabbitmq.Events(sequencer)}
	return o.mu.term, nil
}

// leave ends the term: what runs comes to its end, all else goes back.
func (o *owner) leave() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.left = true
	if o.mu.term == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	return o.mu.term.sequencer.Shutdown(ctx)
}
