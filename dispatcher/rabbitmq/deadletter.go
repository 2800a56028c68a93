package rabbitmq

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"
)

// Headers of dead letters, beside those that the message had.
const (
	ReasonHeader = "x-interlock-reason" // why, at most 4 KiB
	QueueHeader  = "x-interlock-queue"  // whence
	TimeHeader   = "x-interlock-time"   // when, as RFC 3339
)

// Address is where messages are published: an exchange, "" for the default
// one, and a routing key, which for the default exchange is a queue's name.
type Address struct{ Exchange, Key string }

// deadLetters publishes messages that nobody can use, on a connection of its
// own, which is made with the first of them. It is there for one run of a
// consumer.
type deadLetters struct {
	cfg     ConsumerConfig
	running sync.WaitGroup

	mu struct {
		sync.Mutex
		publisher *Publisher
		closed    bool
	}
}

func newDeadLetters(cfg ConsumerConfig) *deadLetters {
	if cfg.DeadLetter == (Address{}) {
		return nil
	}
	return &deadLetters{cfg: cfg}
}

// publish publishes a message until that is confirmed or ctx ends, and tells
// done which it was.
func (l *deadLetters) publish(ctx context.Context, m amqp.Delivery, reason error, done func(published bool)) {
	if !l.enter() {
		done(false)
		return
	}
	go func() {
		defer l.running.Done()
		letter := letterOf(m, l.cfg.Queue, reason)
		delays := backoff.NewExponentialBackOff()
		delays.MaxInterval = l.cfg.MaxBackoff
		_, err := backoff.Retry(ctx, func() (struct{}, error) {
			p, err := l.publisher()
			if err == nil {
				err = p.publish(ctx, l.cfg.DeadLetter.Exchange, l.cfg.DeadLetter.Key, 0, letter)
			}
			return struct{}{}, err
		}, backoff.WithBackOff(delays), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, wait time.Duration) {
			l.cfg.Logger.Error("rabbitmq: dead letter was not taken, trying again",
				"queue", l.cfg.Queue, "message", m.MessageId, "exchange", l.cfg.DeadLetter.Exchange, "key", l.cfg.DeadLetter.Key, "wait", wait, "err", err)
		}))
		done(err == nil)
	}()
}

// enter tells whether anything is published any more, and lets close wait for
// it: a message may be settled when its consumer has ended.
func (l *deadLetters) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.mu.closed {
		l.running.Add(1)
	}
	return !l.mu.closed
}

func (l *deadLetters) publisher() (*Publisher, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.publisher != nil {
		return l.mu.publisher, nil
	}
	var err error
	l.mu.publisher, err = newLetters(PublisherConfig{Endpoint: l.cfg.Endpoint, Channels: 1})
	return l.mu.publisher, err
}

// close ends the connection, when nothing is published any more. The contexts of
// what is have ended: what is not confirmed by now stays in its queue.
func (l *deadLetters) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.mu.closed = true
	l.mu.Unlock()
	l.running.Wait()
	if p := l.mu.publisher; p != nil {
		atOnce, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Close(atOnce)
	}
}

// letterOf is a message as a dead letter. It is not to expire, goes nowhere
// else, and is not from whom the broker would have to know.
func letterOf(m amqp.Delivery, queue string, reason error) amqp.Publishing {
	headers := amqp.Table{}
	maps.Copy(headers, m.Headers)
	for _, name := range []string{"CC", "BCC"} {
		delete(headers, name)
	}
	headers[ReasonHeader], headers[QueueHeader] = reasonText(reason), queue
	headers[TimeHeader] = time.Now().UTC().Format(time.RFC3339Nano)
	return amqp.Publishing{
		Headers: headers, ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, DeliveryMode: amqp.Persistent,
		Priority: m.Priority, CorrelationId: m.CorrelationId, ReplyTo: m.ReplyTo, MessageId: m.MessageId,
		Timestamp: m.Timestamp, Type: m.Type, AppId: m.AppId, Body: m.Body,
	}
}

func reasonText(reason error) string {
	const most = 4 << 10
	if reason == nil {
		return "no reason was given"
	}
	text := reason.Error()
	return strings.ToValidUTF8(text[:min(len(text), most)], "\uFFFD")
}
