package ordering

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/lockkeys"
)

// Do offers an event, or a command, and waits for its outcome. The error is nil
// if it was applied, now or before: then the outcome has the handler's reply.
// Otherwise it is that of [Sequencer.Offer], that of ctx, a [*HeldError] if the
// event waits for a parked stream, or the outcome's error. If ctx ends first,
// the event may be applied all the same: send a command again with the same ID
// to learn its outcome. When a sequencer has stopped, events that have not run
// get their outcome only at its shutdown, so ctx should have a deadline.
//
// The outcome tells a sender's fault from one that passes. With the result DeadLettered, or
// Failed for a command under the policy Park, the handler, Decode or Keys has failed for
// good, and the error is theirs. With Refused it contradicts what was done. With Duplicate
// the error is a [*GivenUpError]: it was given up before. An [*EventError] comes without a
// result: the event is not valid. After any other error the same command may be sent again,
// and will be applied once.
//
// In a handler the error is [dispatcher.ErrNested].
func (s *Sequencer[T]) Do(ctx context.Context, e *Event) (Outcome, error) {
	if s.within(ctx) {
		return Outcome{}, dispatcher.ErrNested
	}
	told := make(chan Outcome, 1)
	if err := s.Offer(ctx, e, func(_ *Event, o Outcome) { told <- o }); err != nil {
		return Outcome{}, err
	}
	var o Outcome
	select {
	case o = <-told:
	case <-ctx.Done():
		select {
		case o = <-told: // both at once: what is known counts
		default:
			return Outcome{}, context.Cause(ctx)
		}
	}
	if o.Result == Held {
		return o, s.heldError(ctx, e)
	}
	return o, o.Err
}

// heldError returns the error of an event that waits for a parking.
func (s *Sequencer[T]) heldError(ctx context.Context, e *Event) error {
	held := &HeldError{Event: e}
	parked, err := s.term.Parked(ctx)
	if err != nil { // the parking is not known then
		return held
	}
	for i, p := range parked {
		for _, c := range p.Streams {
			if p, ok := e.On(c.Stream); ok && p.Place() >= c.Position().Place() {
				held.Parking = &parked[i]
				return held
			}
		}
	}
	return held
}

// Read calls read while it holds the lock keys of a claim, shared or exclusive:
// it waits for earlier events that conflict with the claim, and later ones wait
// for it. Nothing is written to the store. A parked event holds no lock keys;
// read sees the state before that event. The dispatcher's observer sees a job
// with an empty event.
//
// The error is read's, that of ctx, or of [Sequencer.Err]. In a handler it is
// [dispatcher.ErrNested].
func (s *Sequencer[T]) Read(ctx context.Context, claim func(*lockkeys.Claim), read func(ctx context.Context) error) error {
	if claim == nil || read == nil {
		return fmt.Errorf("ordering: Read: claim or read is nil")
	}
	if s.within(ctx) {
		return dispatcher.ErrNested
	}
	if s.stopped.Load() {
		return s.Err()
	}
	var failed error
	it := &item[T]{claim: claim, read: func(ctx context.Context) error {
		failed = contained(ctx, read)
		return nil // it is not tried again
	}}
	if err := s.dispatcher.Do(ctx, Job[T]{Event: &Event{}, item: it}); err != nil {
		if s.stopped.Load() {
			return s.Err()
		}
		return s.submitError(err)
	}
	return failed
}

// contained calls a function, and returns a panic as its error.
func contained(ctx context.Context, f func(context.Context) error) (err error) {
	defer contain.Recover(&err)
	return f(ctx)
}
