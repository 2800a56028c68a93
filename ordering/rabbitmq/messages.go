package rabbitmq

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"reflect"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
)

// Messages returns a receiver that decodes messages and submits them to a
// dispatcher. A message whose handler succeeded is acknowledged; one that cannot
// be decoded or has failed for good becomes a dead letter. A panic of decode
// counts as its error.
//
// A redelivery, after a lost channel, shares the result of its first copy if that
// has not ended yet. It is recognized by the whole message, not by its ID, which
// need not be unique: two messages on one channel are two, even if equal. Apart
// from that, handlers must be idempotent, since a message may be redelivered after
// it has run.
//
// A message parked by the dispatcher stays in the prefetch window; if there may be
// many, use numbered events. One that conflicts with a parked one while
// Config.MaxParked is reached waits, with the queue behind it, and Ready reports
// it.
func Messages[M any](d *dispatcher.Dispatcher[M], decode func(m amqp.Delivery) (M, error)) Receiver {
	r := &messages[M]{dispatcher: d, decode: decode}
	r.mu.running = map[string][]*run{}
	return r
}

type messages[M any] struct {
	dispatcher *dispatcher.Dispatcher[M]
	decode     func(m amqp.Delivery) (M, error)

	mu struct {
		sync.Mutex
		running map[string][]*run // by message ID
	}
}

// lack says what is missing, for [NewConsumer].
func (r *messages[M]) lack() string {
	switch {
	case r.dispatcher == nil:
		return "Messages has a nil dispatcher"
	case r.decode == nil:
		return "Messages has a nil decode"
	}
	return ""
}

// run is a message in flight.
type run struct {
	message amqp.Delivery
	channel *consuming // of its last delivery; nil if unknown
	tell    []Settle   // called with the result
}

func (r *messages[M]) Receive(ctx context.Context, m amqp.Delivery, settle Settle) error {
	w := consumingOf(ctx)
	if w != nil {
		w.meet(r.dispatcher)
	}
	message, err := r.read(m)
	if err != nil {
		settle(DeadLetter(err))
		return nil
	}
	this := r.enter(w, m, settle)
	if this == nil {
		return nil
	}
	err = r.dispatcher.Submit(ctx, message, dispatcher.OnDone(func(_ M, err error) {
		for _, settle := range r.leave(this) {
			settle(resultOf(err))
		}
	}))
	if err != nil {
		others := r.leave(this)
		for _, settle := range others[1:] {
			settle(Requeue())
		}
		if errors.Is(err, dispatcher.ErrTooLarge) && !errors.Is(err, dispatcher.ErrStopped) {
			settle(DeadLetter(err))
			return nil
		}
	}
	return err
}

func (r *messages[M]) read(m amqp.Delivery) (message M, err error) {
	defer contain.Recover(&err)
	return r.decode(m)
}

// enter records a message that is to run. It returns nil for a redelivery of one
// in flight, whose result settles it too.
func (r *messages[M]) enter(w *consuming, m amqp.Delivery, settle Settle) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range r.mu.running[m.MessageId] {
		if of.comesAgain(w, m) {
			of.channel, of.tell = w, append(of.tell, settle)
			return nil
		}
	}
	this := &run{m, w, []Settle{settle}}
	r.mu.running[m.MessageId] = append(r.mu.running[m.MessageId], this)
	return this
}

// leave removes a message that is not in flight any more, and returns the
// functions to call with its result.
func (r *messages[M]) leave(this *run) []Settle {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := this.message.MessageId
	others := r.mu.running[id]
	for i, of := range others {
		if of == this {
			others[i] = others[len(others)-1]
			others[len(others)-1] = nil
			others = others[:len(others)-1]
			break
		}
	}
	if len(others) == 0 {
		delete(r.mu.running, id)
	} else {
		r.mu.running[id] = others
	}
	return this.tell
}

// comesAgain reports whether m is a redelivery of the message, on a later channel
// of the same consumer. Of several equal messages, each matches one on each
// channel.
func (of *run) comesAgain(w *consuming, m amqp.Delivery) bool {
	if w == nil || of.channel == nil || of.channel == w || of.channel.Consumer != w.Consumer || !m.Redelivered {
		return false
	}
	a, b := of.message, m
	headers := sameHeaders(a.Headers, b.Headers)
	body := bytes.Equal(a.Body, b.Body)
	for _, m := range []*amqp.Delivery{&a, &b} { // clear the compared fields, and those that differ
		m.Headers, m.Body = nil, nil
		m.ConsumerTag, m.DeliveryTag, m.Redelivered = "", 0, false
	}
	return headers && body && reflect.DeepEqual(a, b)
}

// sameHeaders reports whether headers are equal, without the broker's own counts.
func sameHeaders(a, b amqp.Table) bool {
	own := func(name string, _ any) bool { return isBrokers(name) }
	a, b = maps.Clone(a), maps.Clone(b)
	maps.DeleteFunc(a, own)
	maps.DeleteFunc(b, own)
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

func resultOf(err error) Settlement {
	switch {
	case err == nil:
		return Ack()
	case errors.Is(err, dispatcher.ErrClosed), errors.Is(err, dispatcher.ErrStopped):
		return Requeue()
	}
	return DeadLetter(err)
}
