package rabbitmq

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
)

// Events returns a receiver that reads messages as numbered events, see
// [EventOf], and offers them to a sequencer. As a [Term], for [Owner], its
// Shutdown is the sequencer's. A redelivery whose first copy still runs shares
// its outcome. Messages that are done or held durably are acknowledged; those
// that cannot be read or can never run become dead letters; the others go back to
// the queue. Several consumers may share a sequencer; for queues that several
// processes consume in turns, see [Owner].
//
// Events that wait for earlier ones take at most half of
// [ConsumerConfig.Prefetch], whatever the sequencer's settings: see
// [ordering.Sequencer.LimitEarly]. If they filled the window, the missing events
// could not come before the gap's timeout. A sequencer that was stopped ends the
// consumer within about a second.
func Events[T any](s *ordering.Sequencer[T]) Term { return events[T]{s} }

type events[T any] struct {
	sequencer *ordering.Sequencer[T]
}

// lack says what is missing, for [NewConsumer].
func (r events[T]) lack() string {
	if r.sequencer == nil {
		return "Events has a nil sequencer"
	}
	return ""
}

// Receive implements [Receiver].
func (r events[T]) Receive(ctx context.Context, m amqp.Delivery, settle Settle) error {
	w := consumingOf(ctx)
	if w != nil && w.meet(r.sequencer) {
		r.sequencer.LimitEarly(w.cfg.Prefetch / 2)
	}
	e, left, err := eventOf(m)
	if w != nil {
		w.tellLeft(m, left...)
	}
	if err != nil {
		settle(DeadLetter(err))
		return nil
	}
	err = r.sequencer.Offer(ctx, e, func(_ *ordering.Event, o ordering.Outcome) { settle(settlementOf(o)) })
	if errors.Is(err, ordering.ErrStopped) { // possibly because of another event
		return err
	}
	if errors.As(err, new(*ordering.EventError)) || errors.Is(err, dispatcher.ErrTooLarge) {
		settle(DeadLetter(err))
		return nil
	}
	return err
}

// Shutdown implements [Term].
func (r events[T]) Shutdown(ctx context.Context) error { return r.sequencer.Shutdown(ctx) }

func settlementOf(o ordering.Outcome) Settlement {
	switch {
	case o.Ack():
		return Ack()
	case o.Result == ordering.Refused:
		return DeadLetter(o.Err)
	}
	return Requeue()
}
