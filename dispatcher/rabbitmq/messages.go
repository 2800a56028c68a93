package rabbitmq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
)

// Messages returns a receiver that decodes messages and submits them to a
// dispatcher. A message whose handler succeeded is acknowledged; one that cannot
// be decoded or has failed for good is a dead letter. A panic of decode counts as
// its error.
//
// What the broker delivers again, since the channel was lost, shares the result
// of its first copy if that has not ended yet. That is known by the whole message,
// not by its ID, which need not be unique: two messages on one channel are two,
// however alike. Apart from that handlers must be idempotent, since a message that
// was run may come again.
//
// A message that the dispatcher parks stays in the prefetch window; where that
// may be many, use numbered events. One that would go behind what is parked when
// Config.MaxParked is reached waits, with the queue behind it, and Ready says so.
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

// run is a message that runs.
type run struct {
	message amqp.Delivery
	channel *consuming // by which it came last; nil if that is not known
	tell    []Settle   // who are told of the result
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
			settle(Return())
		}
		if errors.Is(err, dispatcher.ErrTooLarge) && !errors.Is(err, dispatcher.ErrStopped) {
			settle(DeadLetter(err))
			return nil
		}
	}
	return err
}

func (r *messages[M]) read(m amqp.Delivery) (message M, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("rabbitmq: decoding a message: %v", v)
		}
	}()
	return r.decode(m)
}

// enter notes that a message is to be run. It returns nil for one that runs
// already and has come again: that is told of the result too.
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

// leave notes that a message does not run any more, and returns who are told.
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

// comesAgain tells whether m is a message that runs, by a later channel of the
// same consumer. Of several that are alike each is met by one on each channel.
func (of *run) comesAgain(w *consuming, m amqp.Delivery) bool {
	if w == nil || of.channel == nil || of.channel == w || of.channel.Consumer != w.Consumer || !m.Redelivered {
		return false
	}
	a, b := of.message, m
	headers := sameHeaders(a.Headers, b.Headers)
	body := bytes.Equal(a.Body, b.Body)
	for _, m := range []*amqp.Delivery{&a, &b} { // what is compared already, or differs
		m.Headers, m.Body = nil, nil
		m.ConsumerTag, m.DeliveryTag, m.Redelivered = "", 0, false
	}
	return headers && body && reflect.DeepEqual(a, b)
}

// sameHeaders compares headers but for the broker's own counts.
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
		return Return()
	}
	return DeadLetter(err)
}
