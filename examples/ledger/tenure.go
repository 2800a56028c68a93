package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher/rabbitmq"
	"github.com/interlock-go/interlock/examples/ledger/internal/report"
	"github.com/interlock-go/interlock/ordering"
)

// tenure is a time in which the queue, and with it the database, is this
// program's. It begins with the first message: until then the program stands by
// and leaves the database to another one. It is over when the connection to the
// broker was lost and is there again, or when another program has taken over
// the database: in between that one may have gone on, so that what this one
// knows of the streams is old. Then another one begins.
//
// A program that does not stand by has one tenure, from its start to its end.
type tenure struct {
	options        *options
	listener       net.Listener // nil if there is no HTTP
	stdout, stderr io.Writer
	stop           context.CancelCauseFunc // ends the tenure

	// mu is held while the session is opened and while it ends.
	mu struct {
		sync.Mutex
		session *session // nil before the first message
		over    bool
		began   time.Time
	}

	// The consuming goroutine's.
	receiver   rabbitmq.Receiver // of the session
	connection string            // whence the first message came: the consumer's tag
}

// atWork is what the program says with the first message.
const atWork = "at work on the queue"

// Reasons for the end of a tenure.
var (
	errReconnected = errors.New("the connection to the broker was lost, and another program may have had the queue")
	errTakenOver   = errors.New("another program has taken over the database")
)

// run runs for a tenure, until ctx ends at the latest. It tells whether all was
// well, and whether another tenure is to follow.
func (t *tenure) run(ctx context.Context) (good, another bool, err error) {
	consumer, err := t.newConsumer()
	if err != nil {
		return false, false, err
	}
	var served, consumed error // of the goroutines, for when they have ended
	var requests, messages sync.WaitGroup
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t.stop = stop
	if !t.options.standsBy() {
		s, err := t.open(ctx)
		if err != nil {
			return false, false, err
		}
		if t.listener != nil {
			requests.Go(func() { served = s.serveUntil(work, t.listener, t.stderr); stop(served) })
		}
	}
	fmt.Fprintf(t.stderr, "waiting for messages from the queue %s\n", t.options.queue)
	messages.Go(func() { consumed = consumer.Run(work); stop(consumed) })

	<-work.Done()
	requests.Wait()
	s, waiting, ended := t.handOver(ctx)
	messages.Wait()
	failure := errors.Join(served, consumed, ended)
	if cause := context.Cause(work); failure == nil && errors.Is(cause, errTakenOver) {
		failure = cause
	}
	for _, why := range []error{errReconnected, errTakenOver} {
		if t.options.standsBy() && ended == nil && errors.Is(failure, why) {
			another, failure = true, nil
			fmt.Fprintf(t.stderr, "%v: standing by\n", why)
		}
	}
	if s == nil {
		return failure == nil, another, failure
	}
	defer func() { err = errors.Join(err, s.close()) }()
	good, err = s.conclude(ctx, t.stdout, t.summary(s, waiting, failure))
	return good, another, err
}

// summary is that of a session that has ended.
func (t *tenure) summary(s *session, waiting []ordering.Parking, failure error) *report.Summary {
	counts := s.service.Counts()
	return &report.Summary{
		Input: t.input().identity.name, Served: true,
		Read: counts.Accepted, Elapsed: time.Since(t.mu.began), Waiting: waiting, Failure: failure,
	}
}

// Receive implements [rabbitmq.Receiver]. It opens the session with the first
// message.
func (t *tenure) Receive(ctx context.Context, m amqp.Delivery, settle rabbitmq.Settle) error {
	if t.receiver == nil {
		s, err := t.open(ctx)
		if err != nil {
			return err
		}
		t.receiver, t.connection = s.service.Receiver(), m.ConsumerTag
		fmt.Fprintf(t.stderr, "%s %s\n", atWork, t.options.queue)
	}
	if m.ConsumerTag != t.connection && t.options.standsBy() {
		return errReconnected
	}
	return t.receiver.Receive(ctx, m, func(what rabbitmq.Settlement) {
		if what == rabbitmq.Return() { // the service has ended, or has lost a stream
			t.stop(errTakenOver)
		}
		settle(what)
	})
}

// open opens the session, if it is not open yet.
func (t *tenure) open(ctx context.Context) (s *session, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.mu.over:
		return nil, context.Canceled
	case t.mu.session == nil:
		t.mu.began = time.Now()
		t.mu.session, err = t.options.begin(ctx, t.stderr, t.input(), nil)
	}
	return t.mu.session, err
}

// handOver ends the session, if there is one: what runs comes to its end, and
// the rest goes back to the queue.
func (t *tenure) handOver(ctx context.Context) (s *session, waiting []ordering.Parking, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.over = true
	if t.mu.session == nil {
		return nil, nil, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	waiting, err = t.mu.session.service.HandOver(ctx)
	return t.mu.session, waiting, err
}
