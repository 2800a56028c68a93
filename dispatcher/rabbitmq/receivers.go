package rabbitmq

import (
	"context"
	"errors"

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
