package rabbitmq

import (
	"context"
	"errors"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
)

// Term is the period in which a process owns a queue: a receiver, and how to
// end it. [Events] makes one from a sequencer; wrap that to end other resources
// with it, such as a database. See [Owner] for when a term begins and ends.
type Term interface {
	Receiver
	// Shutdown ends the term, as [ordering.Sequencer.Shutdown] does: no handler
	// starts any more, running ones end, and all other messages are settled
	// with [Requeue]. It is called after the receiver has got its last message,
	// with [ConsumerConfig.Grace] as the deadline of ctx. If its error wraps
	// [dispatcher.ErrUnfinished], it is called once more, without a deadline,
	// and the consumer does not wait for that. Errors and panics are logged.
	Shutdown(ctx context.Context) error
}

// Owner returns a receiver for a queue that several processes consume, one at a
// time: a single-active queue, of a partition for example, with a shared store.
// It is for one consumer: a second one, while there is a term of the first, ends with an
// error.
//
// The period in which the process owns the queue is a term. There is one for
// each channel of the consumer. A sequencer of an earlier term may have outdated
// knowledge of the streams, since another process may have owned the queue
// meanwhile. So each term has a sequencer of its own:
//
//	rabbitmq.Owner(func(ctx context.Context) (rabbitmq.Term, error) {
//		sequencer, err := ordering.New(ctx, config)
//		if err != nil {
//			return nil, err
//		}
//		return rabbitmq.Events(sequencer), nil
//	})
//
// begin is called for the first message of a term, since only that shows that
// the process owns the queue; so held events in the store wait for the next
// message, too. The context of begin ends with the term, and its cause says why.
// An error of begin ends the consumer, unless it is a [*ordering.StoreError]:
// then begin is called again after a back-off, on the same channel.
//
// The term ends with the channel, or when the consumer is to stop. The next one
// does not begin before [Term.Shutdown] has returned without
// [dispatcher.ErrUnfinished]. Nothing else should use or end the sequencer; an
// operator works on parkings through the store.
//
// A consumer with a priority is refused; see the package's section on several
// processes.
func Owner(begin func(ctx context.Context) (Term, error)) Receiver {
	return &owner{begin: begin}
}

type owner struct {
	begin func(ctx context.Context) (Term, error)

	mu struct {
		sync.Mutex // held while a term begins
		term       *term
	}
}

// lack says what is missing, for [NewConsumer].
func (o *owner) lack() string {
	if o.begin == nil {
		return "Owner has a nil function"
	}
	return ""
}

// term is a [Term] on its channel.
type term struct {
	Term
	channel *consuming
	over    chan struct{} // closed when no handler runs any more
}

// errNoTerm: the caller's function returned nil, nil.
var errNoTerm = errors.New("rabbitmq: the function given to Owner has returned neither a term nor an error: return Events of a sequencer, for example")

// errStranger: a receiver wrapped around an owner passes on another context.
var errStranger = errors.New("rabbitmq: Owner was called without its consumer's context: pass on what Receive is given, or a context made from it")

// errPriority: RabbitMQ 4 activates a consumer of higher priority at once, while
// the previous one still works on its messages.
var errPriority = errors.New("rabbitmq: an Owner must not have a priority, since it may begin before the previous owner has ended: remove it")

// errShared: the terms of two consumers would wait for each other, and their queues stand
// still.
var errShared = errors.New("rabbitmq: Owner has a term of another consumer: make one for each")

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
	return t.Receive(ctx, m, settle)
}

// current returns the term of a channel, and begins it if necessary.
func (o *owner) current(ctx context.Context, channel *consuming) (*term, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch t := o.mu.term; {
	case t == nil:
	case t.channel == channel:
		return t, nil
	case t.channel.Consumer != channel.Consumer && !t.isOver():
		return nil, errShared
	default:
		select {
		case <-t.over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	begun, err := o.begin(channel.receiving)
	switch {
	case err != nil:
		return nil, err
	case begun == nil:
		return nil, errNoTerm
	}
	t := &term{begun, channel, make(chan struct{})}
	o.mu.term = t
	channel.terms.Add(1)
	context.AfterFunc(channel.receiving, t.end)
	return t, nil
}

func (t *term) isOver() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// end ends a term. When the consumer's grace is over, the contexts of running
// handlers end, and the consumer does not wait for them.
func (t *term) end() {
	defer close(t.over)
	cfg := t.channel.cfg
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Grace)
	defer cancel()
	err := t.shutdown(ctx)
	t.channel.terms.Done()
	if errors.Is(err, dispatcher.ErrUnfinished) {
		cfg.Logger.Error("rabbitmq: the owner of a queue waits for handlers that do not end", "queue", cfg.Queue, "err", err)
		err = t.shutdown(context.Background())
	}
	if err != nil {
		cfg.Logger.Error("rabbitmq: the term of a queue's owner ended with an error", "queue", cfg.Queue, "err", err)
	}
}

// shutdown calls Shutdown. A panic counts as its error, and so does runtime.Goexit.
func (t *term) shutdown(ctx context.Context) error {
	return contain.Apart(func() error { return t.Shutdown(ctx) })
}
