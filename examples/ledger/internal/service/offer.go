package service

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/numbering"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// Submit hands over a message, which has been validated, and waits only while
// too many are pending. If it has no numbers of its own it gets some: then the
// order of calls is the order of the messages.
func (s *Service) Submit(ctx context.Context, line int, m *book.Message) error {
	e, err := eventOf(line, m)
	if err != nil {
		return err
	}
	return s.offer(ctx, line, m, e, func(ordering.Outcome) {})
}

// Do runs a message and waits for its answer, which comes when the effect is
// durable. A message with an ID and no numbers is a command: a repeat gets the
// answer to the first copy. When ctx ends first, what becomes of the message is not
// known.
func (s *Service) Do(ctx context.Context, m *book.Message) (book.Reply, error) {
	e, err := eventOf(0, m)
	if err != nil {
		return book.Reply{}, err
	}
	if len(e.Positions) == 0 {
		e.ID = m.ID
	}
	told := make(chan ordering.Outcome, 1)
	if err := s.offer(ctx, 0, m, e, func(o ordering.Outcome) { told <- o }); err != nil {
		return book.Reply{}, err
	}
	select {
	case o := <-told:
		return answerOf(e, o)
	case <-ctx.Done():
		return book.Reply{}, context.Cause(ctx)
	}
}

// Errors of [Service.Do] for messages that did not run.
var (
	// ErrDone says that the message was done before, by its numbers. The reply is
	// what was answered then.
	ErrDone = errors.New("the message was done before")
	// ErrHeld says that the message is kept until those come that its numbers
	// say are before it.
	ErrHeld = errors.New("the message waits for earlier ones")
	// ErrInDoubt says that the service has ended, and that nobody knows whether the
	// message was applied before.
	ErrInDoubt = errors.New("the service has ended before it was known what became of the message")
)

// answerOf is what an outcome means for the sender of a message.
func answerOf(e *ordering.Event, o ordering.Outcome) (book.Reply, error) {
	switch {
	case o.Result == ordering.Held:
		return book.Reply{}, ErrHeld
	case o.Result == ordering.Applied, o.Result == ordering.Duplicate:
	case rejectsCommand(e, o):
		return book.Reply{}, idTaken(e.ID)
	case o.Result == ordering.Unfinished: // its commit may have been under way
		return book.Reply{}, fmt.Errorf("%w: %w", ErrInDoubt, o.Err)
	default:
		return book.Reply{}, o.Err
	}
	answer, err := book.DecodeAnswer(o.Reply)
	if err == nil {
		err = answer.Err()
	}
	if err == nil && o.Result == ordering.Duplicate && !e.IsCommand() {
		err = ErrDone
	}
	return answer.Reply, err
}

// rejectsCommand reports whether an outcome is that of a command with the ID of
// another message: the sequencer has refused it, knowing another command with the
// ID, or the handler has, see [failureFor].
func rejectsCommand(e *ordering.Event, o ordering.Outcome) bool {
	return e.IsCommand() && (o.Result == ordering.Refused || o.Result == ordering.Failed)
}

// Receiver returns what takes messages from a queue, with numbers of their own.
func (s *Service) Receiver() rabbitmq.Receiver { return rabbitmq.Events(s.sequencer) }

// offer gives a message to the sequencer: as a command, with its own numbers, or
// with new ones. When it has returned nil, told is called with what became of the
// message.
func (s *Service) offer(ctx context.Context, line int, m *book.Message, e *ordering.Event, told func(ordering.Outcome)) error {
	var claim lockkeys.Claim
	err := m.Claim(&claim)
	if err != nil {
		return err
	}
	done := func(e *ordering.Event, o ordering.Outcome) {
		s.ended(line, m, e, o)
		told(o)
	}
	if e.IsCommand() || hasNumbers(e) {
		err = s.sequencer.Offer(ctx, e, done)
	} else {
		err = s.offerNumbered(ctx, e, &claim, done)
	}
	if err == nil {
		s.counts.accepted.Add(1)
	}
	return err
}

// offerNumbered numbers a message and offers it. Once it has its numbers, it
// is offered whatever becomes of ctx: those after it would wait for it.
func (s *Service) offerNumbered(ctx context.Context, e *ordering.Event, claim *lockkeys.Claim, done ordering.Done) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.Err(); err != nil {
		return err
	}
	if s.turn.numbering == nil {
		if err := s.number(nil); err != nil {
			return err
		}
	}
	e.Positions = s.turn.numbering.Next(claim.Requests())
	e.ID = fmt.Sprintf("%s/%d", s.turn.streams, s.turn.numbering.Messages())
	err := s.sequencer.Offer(context.WithoutCancel(ctx), e, s.follow(done))
	if err != nil {
		s.abort(err)
	}
	return err
}

// number begins to number messages, or goes on behind a checkpoint.
func (s *Service) number(behind *store.Checkpoint) error {
	streams, err := book.OwnStreams.Child(strconv.FormatInt(s.cfg.Input(), 10))
	if err != nil {
		return err
	}
	n := numbering.New(streams)
	if behind != nil {
		if n, err = numbering.Load(streams, behind.Numbers); err != nil {
			return err
		}
	}
	s.turn.streams, s.turn.numbering = streams, n
	return nil
}
