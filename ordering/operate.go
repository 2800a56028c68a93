package ordering

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// Parked lists the parkings, oldest first.
func (s *Sequencer[T]) Parked(ctx context.Context) ([]Parking, error) { return s.term.Parked(ctx) }

// Decisions lists the job states of everything that operators have given up,
// newest first: see [Reader].Decisions.
func (s *Sequencer[T]) Decisions(ctx context.Context, before time.Time, limit int) ([]JobState, error) {
	return s.term.Decisions(ctx, before, limit)
}

// Resume resumes the parking of a stream: the failed event runs again, or the
// missing events are requested. The events held behind it follow in order,
// before newer arrivals. Attempts continue to count.
//
// The error wraps [ErrNotParked] or [ErrNotOwned], or is that of ctx, of [Sequencer.Err], or of
// the store; in a handler it is [dispatcher.ErrNested]. If ctx ends before the
// operation has begun, nothing is done; if it ends later, the operation is
// completed.
func (s *Sequencer[T]) Resume(ctx context.Context, stream lockkeys.Key) error {
	return s.operate(ctx, &core.Decision{Kind: core.Resume, Key: stream})
}

// Skip gives up the event, or the missing numbers, that a parked stream is
// closed at, with a record, and resumes its parking. A skipped event's numbers
// become done on all its streams, and it is passed to [Config.DeadLetter]. The
// operator and the reason are taken from ctx, see [dispatcher.WithOperator], and
// kept in the job states, see [Reader].Decisions. The errors are those of Resume;
// if more than [Config.MaxSkip] numbers are missing, the error wraps [ErrTooFar]
// and nothing is done.
//
// Skip gives up whatever the stream is closed at by then, which may be something else
// than its caller has seen: another event, if Skip is called twice for example, or one
// that only waits, on a stream that it was bound by. To decide about a parking as it was
// seen, pass its [Parking.Target] to [Sequencer.Act]. If a missing number has come just
// then, so that the parking is about to be resumed, the error wraps ErrNotParked.
func (s *Sequencer[T]) Skip(ctx context.Context, stream lockkeys.Key) error {
	return s.operate(ctx, &core.Decision{Kind: core.SkipHead, Key: stream})
}

// SkipTo is Skip for all missing numbers of a parked stream up to last, however
// many they are; if that is of a later epoch, this one is over. Held events stay,
// and run.
func (s *Sequencer[T]) SkipTo(ctx context.Context, last Position) error {
	if err := last.check(); err != nil {
		return fmt.Errorf("ordering: skip up to %s: %w", last, err)
	}
	return s.operate(ctx, &core.Decision{Kind: core.SkipTo, Key: last.Stream, Last: last.Place()})
}

// Drop is Skip for all held events of a parked stream, which goes on with new
// arrivals. An event with more than [Config.MaxSkip] missing numbers before it
// is passed to [Config.DeadLetter] and deleted, without marking these or its
// own numbers as done. The errors are those of Resume, and what Skip says of a parking
// that has changed holds for Drop.
func (s *Sequencer[T]) Drop(ctx context.Context, stream lockkeys.Key) error {
	return s.operate(ctx, &core.Decision{Kind: core.Drop, Key: stream})
}

// operate passes a decision to the core, and waits until it is carried out.
func (s *Sequencer[T]) operate(ctx context.Context, d *core.Decision) error {
	if s.within(ctx) {
		return dispatcher.ErrNested
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	mine, err := s.owned(d.Key)
	if err != nil {
		return err
	}
	if len(mine) == 0 {
		return fmt.Errorf("%w: %s", ErrNotOwned, d.Key)
	}
	who, why := dispatcher.OperatorOf(ctx)
	d.By, d.Why = who, errors.New(cmp.Or(why, "skipped by an operator"))
	reply := make(chan error, 1)
	d.Owner = reply
	s.step(core.Decide{Decision: d})
	select {
	case err := <-reply:
		return err
	case <-s.background.Done():
		err = s.Err()
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.core.Withdraw(d)
		err = context.Cause(ctx)
	}
	select {
	case err := <-reply: // both at once: what is known counts
		return err
	default:
		return err
	}
}

// decided reports the end of a decision to its caller.
func (s *Sequencer[T]) decided(a core.Decided) { a.Owner.(chan error) <- a.Err }
