package service

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/ordering"
)

// handle does the work of one message: it reads, checks and writes, and knows
// nothing of the others.
func (s *Service) handle(ctx context.Context, job ordering.Job[*book.Message]) error {
	run := s.begin(ctx)
	if err := pause(ctx, s.cfg.Latency); err != nil {
		return err
	}
	result, err := s.apply(ctx, job.Event, job.Value)
	if err != nil {
		return err
	}
	err = s.commit(ctx, job, result)
	s.ran(run, job, result, err)
	return err
}

// apply finds out what a message changes. That the book rejects it is a result
// too, which is kept with the numbers, and no failure.
func (s *Service) apply(ctx context.Context, e *ordering.Event, m *book.Message) (store.Result, error) {
	result := store.Result{Event: e}
	var err error
	if m.ID != "" {
		var answer *book.Answer
		if answer, result.Known, err = s.lookUp(ctx, e, m.ID); answer != nil {
			result.Answer = *answer
			return result, nil
		}
	}
	if err == nil {
		tx := book.Begin(ctx, s.cfg.Store)
		if result.Answer.Reply, err = book.Apply(tx, m); err == nil {
			result.Changes = tx.Changes()
		}
	}
	if e.IsCommand() && isIDTaken(err) {
		return result, dispatcher.Permanent(err) // see failureFor
	}
	if rejection, ok := book.Refused(err); ok {
		err = nil
		result.Answer.Rejection = rejection
		result.Refusal = &store.Refusal{Event: e.Name(), Input: s.inputOf(e), Line: lineOf(e), Message: e.Payload, Rejection: *rejection}
	}
	if result.Known != nil {
		result.Known.Answer = result.Answer
	}
	return result, err
}

// commit makes a result durable together with the message's numbers and its
// answer. That the numbers are done already may be the work of a program that has
// taken over the database; then the error says that.
func (s *Service) commit(ctx context.Context, job ordering.Job[*book.Message], result store.Result) error {
	answer, err := result.Answer.Encode(ordering.MaxReply)
	if err != nil {
		return err
	}
	job.Reply(answer)
	err = s.cfg.Store.Commit(ctx, job, result)
	if errors.Is(err, ordering.ErrDuplicate) {
		if lost := s.cfg.Store.Holds(ctx); errors.Is(lost, ordering.ErrFenced) {
			return lost
		}
	}
	return err
}

// pause waits as long as a call of another service would take.
func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
