package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
)

// Over RabbitMQ a request is a message to the service's queue, with the method as its
// type and the key as its message ID; the answer goes to the queue that it names, with one
// of these as its type. A request is acknowledged when it was answered: if the service
// ends before that, another one gets it, and does it once by its key.
const (
	answered = "answer"
	refused  = "refusal"
	broken   = "failure"
)

// directReply is RabbitMQ's own queue for answers to the channel that asks.
const directReply = "amq.rabbitmq.reply-to"

// prefetch bounds the requests that a service handles at a time.
const prefetch = 64

// ServeAMQP serves a service at a queue until ctx ends, and connects again when the
// connection is lost.
func ServeAMQP(ctx context.Context, url, queue string, s Service, logger *slog.Logger) {
	back := dispatcher.Backoff{}.WithDefaults(50*time.Millisecond, 2*time.Second)
	for failed := 1; ctx.Err() == nil; failed++ {
		served, err := s.consume(ctx, url, queue)
		if ctx.Err() != nil {
			return
		}
		if served {
			failed = 1
		}
		wait := back.Wait(failed)
		logger.Warn("the connection of a service is lost", "queue", queue, "err", err, "again_in", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// consume serves until the connection is lost or ctx ends. served reports whether there
// was a connection.
func (s Service) consume(ctx context.Context, url, queue string) (served bool, err error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return false, err
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		return false, err
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return false, err
	}
	requests, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return false, err
	}
	lost := conn.NotifyClose(make(chan *amqp.Error, 1))
	working, stop := context.WithCancel(ctx)
	defer stop()
	var handlers sync.WaitGroup
	defer handlers.Wait()
	for {
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case err := <-lost:
			stop()
			return true, err
		case d, open := <-requests:
			if !open {
				return true, amqp.ErrClosed
			}
			handlers.Go(func() { s.answer(working, ch, d) })
		}
	}
}

// answer handles a request and answers it. If the answer cannot be sent, the connection is
// lost, and the request will come again.
func (s Service) answer(ctx context.Context, ch *amqp.Channel, d amqp.Delivery) {
	body, err := s.handle(ctx, d.Type, d.MessageId, d.Body)
	if ctx.Err() != nil {
		return
	}
	kind := answered
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		kind, body = refused, []byte(refusal.Reason)
	case err != nil:
		kind, body = broken, []byte(err.Error())
	}
	if d.ReplyTo != "" { // nobody waits any more, if it cannot be routed
		err = ch.PublishWithContext(ctx, "", d.ReplyTo, false, false, amqp.Publishing{CorrelationId: d.CorrelationId, Type: kind, Body: body})
		if err != nil {
			return
		}
	}
	_ = d.Ack(false)
}

// AMQP calls a service at a queue. It connects with the first call, and again with the
// first one after the connection was lost; calls that wait for an answer then fail, since
// nobody knows whether they were done. Close it.
type AMQP struct {
	url, queue string

	mu   sync.Mutex
	link *amqpLink // nil without a connection; guarded by mu
}

// amqpLink is a connection, and the calls that wait for answers on it.
type amqpLink struct {
	conn *amqp.Connection
	ch   *amqp.Channel

	mu    sync.Mutex
	next  uint64
	calls map[string]chan amqp.Delivery // by correlation ID; nil when the connection is lost
}

// NewAMQP returns a caller of the service at a queue.
func NewAMQP(url, queue string) *AMQP { return &AMQP{url: url, queue: queue} }

// Close closes the connection. The next call would open another one.
func (c *AMQP) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil || c.link.conn.IsClosed() {
		return nil
	}
	return c.link.conn.Close()
}

// connected returns the connection.
func (c *AMQP) connected() (*amqpLink, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil && !c.link.conn.IsClosed() {
		return c.link, nil
	}
	conn, err := amqp.Dial(c.url)
	if err != nil {
		return nil, err
	}
	l := &amqpLink{conn: conn, calls: map[string]chan amqp.Delivery{}}
	var answers <-chan amqp.Delivery
	if l.ch, err = conn.Channel(); err == nil {
		answers, err = l.ch.Consume(directReply, "", true, false, false, false, nil)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	returned := l.ch.NotifyReturn(make(chan amqp.Return, 64))
	go l.distribute(answers, returned)
	c.link = l
	return l, nil
}

// distribute gives answers to those who wait for them, until the connection, or its channel,
// is lost.
func (l *amqpLink) distribute(answers <-chan amqp.Delivery, returned <-chan amqp.Return) {
	give := func(id string, d amqp.Delivery) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if to := l.calls[id]; to != nil {
			delete(l.calls, id)
			to <- d
		}
	}
	for answers != nil {
		select {
		case d, open := <-answers:
			if !open {
				answers = nil
				break
			}
			give(d.CorrelationId, d)
		case r, open := <-returned:
			if !open {
				returned = nil
				break
			}
			give(r.CorrelationId, amqp.Delivery{Type: broken, Body: []byte("the service's queue does not exist")})
		}
	}
	_ = l.conn.Close() // the broker may have closed the channel alone; the next call has another connection
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, to := range l.calls {
		close(to)
	}
	l.calls = nil
}

// await registers a call.
func (l *amqpLink) await() (id string, answer chan amqp.Delivery, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		return "", nil, amqp.ErrClosed
	}
	l.next++
	id, answer = strconv.FormatUint(l.next, 10), make(chan amqp.Delivery, 1)
	l.calls[id] = answer
	return id, answer, nil
}

func (l *amqpLink) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, id)
}

// Call implements [Caller].
func (c *AMQP) Call(ctx context.Context, method, key string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	l, err := c.connected()
	if err != nil {
		return err
	}
	id, answer, err := l.await()
	if err != nil {
		return err
	}
	defer l.forget(id)
	err = l.ch.PublishWithContext(ctx, "", c.queue, true, false, amqp.Publishing{
		Type: method, MessageId: key, CorrelationId: id, ReplyTo: directReply, DeliveryMode: amqp.Persistent, Body: body})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case d, open := <-answer:
		switch {
		case !open:
			return fmt.Errorf("%s: the connection was lost before the answer", c.queue)
		case d.Type == answered:
			return json.Unmarshal(d.Body, out)
		case d.Type == refused:
			return &Refusal{string(d.Body)}
		}
		return fmt.Errorf("%s: %s: %.200s", c.queue, method, d.Body)
	}
}
