package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
)

// Events returns a receiver that reads messages as numbered events, see
// [EventOf], and offers them to a sequencer. A redelivery whose first copy
// still runs shares its outcome. What is done or held durably is acknowledged;
// what cannot be read or can never run is a dead letter; the rest goes back to
// the queue. Several consumers may share a sequencer; for queues that several
// processes consume in turns, see [Owner].
//
// Events that wait for earlier ones take half of [ConsumerConfig.Prefetch] at
// most, whatever the sequencer's settings say: see
// [ordering.Sequencer.LimitEarly]. If they filled the window, nothing could come
// before the gap's time was over. A sequencer that was stopped ends the
// consumer, within about a second.
func Events(s *ordering.Sequencer) Receiver { return events{s} }

type events struct{ sequencer *ordering.Sequencer }

func (r events) Receive(ctx context.Context, m amqp.Delivery, settle Settle) error {
	if w := consumingOf(ctx); w != nil && w.meet(r.sequencer) {
		r.sequencer.LimitEarly(w.cfg.Prefetch / 2)
	}
	e, err := EventOf(m)
	if err != nil {
		settle(DeadLetter(err))
		return nil
	}
	err = r.sequencer.Offer(ctx, e, func(_ *ordering.Event, o ordering.Outcome) { settle(settlementOf(o)) })
	if errors.Is(err, ordering.ErrStopped) { // by what may have been the fault of another event
		return err
	}
	if errors.As(err, new(*ordering.EventError)) || errors.Is(err, dispatcher.ErrTooLarge) {
		settle(DeadLetter(err))
		return nil
	}
	return err
}

func settlementOf(o ordering.Outcome) Settlement {
	switch {
	case o.Ack():
		return Ack()
	case o.Result == ordering.Refused:
		return DeadLetter(o.Err)
	}
	return Return()
}

// Messages returns a receiver that decodes messages and submits them to a
// dispatcher. A message whose handler succeeded is acknowledged; one that cannot
// be decoded or has failed for good is a dead letter. A redelivery whose first
// copy, with the same message ID, has not ended yet shares its result; apart
// from that handlers must be idempotent, since a message that was run may come
// again. A panic of decode counts as its error.
//
// A message that the dispatcher parks stays in the prefetch window; where that
// may be many, use numbered events.
func Messages[M any](d *dispatcher.Dispatcher[M], decode func(m amqp.Delivery) (M, error)) Receiver {
	r := &messages[M]{dispatcher: d, decode: decode}
	r.mu.running = map[string][]Settle{}
	return r
}

type messages[M any] struct {
	dispatcher *dispatcher.Dispatcher[M]
	decode     func(m amqp.Delivery) (M, error)

	mu struct {
		sync.Mutex
		running map[string][]Settle // by message ID, those who are told of the result
	}
}

func (r *messages[M]) Receive(ctx context.Context, m amqp.Delivery, settle Settle) error {
	if w := consumingOf(ctx); w != nil {
		w.meet(r.dispatcher)
	}
	message, err := r.read(m)
	if err != nil {
		settle(DeadLetter(err))
		return nil
	}
	if !r.enter(m.MessageId, settle) {
		return nil
	}
	err = r.dispatcher.Submit(ctx, message, dispatcher.OnDone(func(_ M, err error) {
		for _, settle := range r.leave(m.MessageId, settle) {
			settle(resultOf(err))
		}
	}))
	if err != nil {
		others := r.leave(m.MessageId, settle)
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

// enter tells whether a message is to be run, and not a copy of one that is.
func (r *messages[M]) enter(id string, settle Settle) bool {
	if id == "" {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting, runs := r.mu.running[id]
	r.mu.running[id] = append(waiting, settle)
	return !runs
}

// leave returns all who are told of a result.
func (r *messages[M]) leave(id string, settle Settle) []Settle {
	if id == "" {
		return []Settle{settle}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.mu.running[id]
	delete(r.mu.running, id)
	return all
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
