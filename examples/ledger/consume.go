package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/examples/ledger/internal/queue"
	"github.com/interlock-go/interlock/examples/ledger/internal/report"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// consume takes messages from a queue, and over HTTP if it is to, until ctx
// ends.
func (o *options) consume(ctx context.Context, stdout, stderr io.Writer) (good bool, err error) {
	if o.standsBy() {
		return o.takeTurns(ctx, stdout, stderr)
	}
	return o.consumeAlone(ctx, stdout, stderr)
}

// standsBy reports whether another program may have the queue and the database
// before and after a term. One that listens takes messages at any time, and a
// database in memory is nobody else's.
func (o *options) standsBy() bool { return o.listen == "" && o.db != store.InMemory }

// consumeAlone has one term, from the start of the program to its end.
func (o *options) consumeAlone(ctx context.Context, stdout, stderr io.Writer) (good bool, err error) {
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	receiver := &alone{stop: stop, tell: func() { fmt.Fprintf(stderr, "%s %s\n", atWork, o.queue) }}
	consumer, err := o.newConsumer(receiver, 2*patience, stderr) // for requests over HTTP, and then for what else runs
	if err != nil {
		return false, err
	}
	in, serve := o.queueInput(), func(*term) error { return nil }
	if o.listen != "" {
		listener, err := o.openListener(ctx, stderr)
		if err != nil {
			return false, err
		}
		defer listener.Close() // an error says that the server has closed it
		in = &input{identity: identity{name: fmt.Sprintf("%s, and HTTP at %s", in.identity.name, listener.Addr())}}
		serve = func(t *term) error {
			defer stop(nil)
			return t.serveUntil(work, listener, stderr)
		}
	}
	t, err := o.begin(ctx, stderr, in, nil)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	receiver.Receiver = t.service.Receiver()

	fmt.Fprintf(stderr, "waiting for messages from the queue %s\n", o.queue)
	var served, consumed error // of the goroutines, for when they have ended
	var requests, messages sync.WaitGroup
	requests.Go(func() { served = serve(t) })
	messages.Go(func() { consumed = consumer.Run(work); stop(consumed) })
	<-work.Done()
	requests.Wait()
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	summary := t.handOver(finish)
	messages.Wait()
	summary.Failure = errors.Join(served, consumed, summary.Failure)
	if cause := context.Cause(work); summary.Failure == nil && errors.Is(cause, errTakenOver) {
		summary.Failure = cause
	}
	return t.conclude(ctx, stdout, summary)
}

// atWork is what the program says with the first message of a term.
const atWork = "at work on the queue"

// errTakenOver is why a program ends whose messages go back to the queue.
var errTakenOver = errors.New("another program has taken over the database")

// alone is the receiver of a program that does not stand by: it ends when the
// database is another program's.
type alone struct {
	rabbitmq.Receiver
	stop  context.CancelCauseFunc
	tell  func() // called with the first message
	first sync.Once
}

// Receive implements [rabbitmq.Receiver].
func (a *alone) Receive(ctx context.Context, m amqp.Delivery, settle rabbitmq.Settle) error {
	a.first.Do(a.tell)
	return a.Receiver.Receive(ctx, m, func(what rabbitmq.Settlement) {
		if what == rabbitmq.Requeue() { // the service has ended, or has lost a stream
			a.stop(errTakenOver)
		}
		settle(what)
	})
}

// handOver ends the service for another program to go on, and returns what a
// summary says of that.
func (t *term) handOver(ctx context.Context) *report.Summary {
	waiting, err := t.service.Shutdown(ctx)
	return &report.Summary{
		Input: t.input, Served: true, Read: t.service.Counts().Accepted, Elapsed: time.Since(t.began), Waiting: waiting, Failure: err,
	}
}

// newConsumer makes the program's consumer.
func (o *options) newConsumer(receiver rabbitmq.Receiver, grace time.Duration, stderr io.Writer) (*rabbitmq.Consumer, error) {
	endpoint := o.endpoint(stderr)
	return rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{
		Endpoint:   endpoint,
		Queue:      o.queue,
		Receiver:   reported{queue.Checked(receiver), endpoint.Logger, o.queue},
		Prefetch:   queue.Window,
		DeadLetter: rabbitmq.Address{Key: queue.DeadLetters(o.queue)},
		Grace:      grace,
	})
}

// reported is a receiver whose dead letters are logged.
type reported struct {
	rabbitmq.Receiver
	logger *slog.Logger
	queue  string
}

// Receive implements [rabbitmq.Receiver].
func (r reported) Receive(ctx context.Context, m amqp.Delivery, settle rabbitmq.Settle) error {
	return r.Receiver.Receive(ctx, m, func(what rabbitmq.Settlement) {
		if what != rabbitmq.Ack() && what != rabbitmq.Requeue() {
			r.logger.Error("a message is put aside: its header "+rabbitmq.ReasonHeader+" says why",
				"in", queue.DeadLetters(r.queue), "message", m.MessageId, "numbers", m.Headers[ordering.SequenceIDHeader])
		}
		settle(what)
	})
}

// endpoint is the broker, with the queue that is to be there.
func (o *options) endpoint(stderr io.Writer) rabbitmq.Endpoint {
	return rabbitmq.Endpoint{
		URL: o.amqp, Topology: queue.Topology(o.queue), Logger: slog.New(slog.NewTextHandler(stderr, nil)),
	}
}

// queueInput is one for all that comes from the queue, with numbers.
func (o *options) queueInput() *input {
	name := "the queue " + o.queue
	return &input{identity: identity{name: name, identity: name}}
}
