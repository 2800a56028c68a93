package ordering

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// errHalted is the error of a run that did not begin, since the sequencer
// stops.
var errHalted = errors.New("ordering: the sequencer stops")

// keys derives a job's lock keys. An event that has none to give fails when it
// is its turn, by its policy.
func (s *Sequencer) keys(j Job, claim *lockkeys.Claim) error {
	if err := s.deriveKeys(j.Event, claim); err != nil {
		j.task.refusal = err
		claim.Reset()
		return streamKeys(j.Event, claim)
	}
	j.task.refusal = nil
	return nil
}

func (s *Sequencer) deriveKeys(e *Event, claim *lockkeys.Claim) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &dispatcher.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return s.cfg.Keys(e, claim)
}

// handle is one attempt at a job; several, if the store was away meanwhile.
func (s *Sequencer) handle(ctx context.Context, j Job) error {
	t := j.task
	if t.committed { // by an attempt that failed after that
		t.outcome.Result = Applied
		return nil
	}
	for {
		if begins, err := s.begins(t); !begins {
			return err
		}
		err := s.attempt(ctx, j)
		again, err := s.result(t, err)
		if !again || ctx.Err() != nil {
			return err
		}
	}
}

// begins tells whether an attempt is to be made; if not, the task has its
// outcome, or err says why.
func (s *Sequencer) begins(t *task) (begins bool, err error) {
	if t.isLost() {
		t.outcome = Outcome{Unfinished, ErrFenced}
		return false, nil
	}
	if t.doubtful && !t.looked { // of the last attempt, which panicked
		if settled, _ := s.resolve(t); settled {
			return false, nil
		}
	}
	for _, slot := range t.slots {
		if slot.stream.isHeld(slot.number) {
			t.outcome.Result = Held
			return false, nil
		}
	}
	if s.stopped.Load() {
		return false, dispatcher.Permanent(errHalted)
	}
	if t.refusal != nil {
		t.looked = true
		return false, dispatcher.Permanent(t.refusal)
	}
	return true, nil
}

// attempt calls the handler, unless it has succeeded before, and commits.
func (s *Sequencer) attempt(ctx context.Context, j Job) error {
	t := j.task
	t.looked = false
	if !t.handled {
		if t.attempts++; t.started.IsZero() {
			t.started = time.Now()
		}
		if err := s.cfg.Handler(ctx, j); err != nil {
			return err
		}
		t.handled = true
	}
	if t.committed {
		return nil
	}
	return s.commit(ctx, j.Record())
}

// result notes how an attempt went; an error is one to be tried again. If the
// store was away when it was asked what became of the failed attempt, that is
// what the attempt has failed for, as far as can be told: again says that there
// is to be another one now, which does not count.
func (s *Sequencer) result(t *task, err error) (again bool, _ error) {
	switch {
	case t.committed && err != nil:
		s.cfg.Logger.Warn("handler failed after its commit, which counts", "event", t.event.Name(), "err", err)
		fallthrough
	case err == nil:
		t.outcome.Result = Applied
		return false, nil
	case errors.As(err, new(*dispatcher.WidenError)): // it runs again, having done nothing
		return false, err
	}
	settled, away := s.resolve(t)
	switch {
	case settled:
		return false, nil
	case errors.Is(err, ErrFenced):
		t.outcome = Outcome{Unfinished, err}
		return false, nil
	}
	return away && !dispatcher.IsPermanent(err), err
}

func (s *Sequencer) commit(ctx context.Context, r Record) error {
	err := s.cfg.Store.Commit(ctx, r)
	if err == nil || errors.Is(err, ErrDuplicate) || errors.Is(err, ErrFenced) || errors.As(err, new(*StoreError)) {
		return err
	}
	return &StoreError{"commit", err}
}

// failureFor tells the dispatcher whether to stop. What becomes of the event
// otherwise is seen to in finish, before its lock keys are free.
func (s *Sequencer) failureFor(j Job, err error) dispatcher.FailurePolicy {
	t := j.task
	switch {
	case t.committed:
		return dispatcher.DeadLetter
	case errors.Is(err, errHalted):
		return dispatcher.Stop
	case !t.looked: // it panicked
		if settled, _ := s.resolve(t); settled {
			return dispatcher.DeadLetter
		}
	}
	if t.policy = s.policy(t.event, err); t.policy == Stop {
		s.mu.Lock()
		s.stopLocked(err)
		s.mu.Unlock()
		return dispatcher.Stop
	}
	t.failure = err
	return dispatcher.DeadLetter
}

// policy asks FailureFor.
func (s *Sequencer) policy(e *Event, err error) Policy {
	policy := s.cfg.Failure
	caught := contain(func() error {
		policy = s.cfg.FailureFor(e, err)
		return nil
	})
	if caught != nil {
		s.cfg.Logger.Error("FailureFor failed; using Failure", "policy", policy.String(), "err", caught)
	}
	return policy
}

// fail sees to a job that failed for good, of which the store knows nothing,
// before its lock keys are free.
func (s *Sequencer) fail(t *task, err error) {
	if t.policy == Skip {
		switch f, cause := s.commitSurely(s.accepting, t.event, t.record(GivenUp, err.Error())); {
		case cause != nil:
			t.outcome = Outcome{Unfinished, cause}
		case f.own == GivenUp:
			t.outcome = Outcome{DeadLettered, err}
			s.deadLetter(s.background, t.event, err)
		default: // meanwhile
			t.outcome = f.outcome()
		}
		return
	}
	var a after
	s.mu.Lock()
	if t.isLost() { // meanwhile
		t.outcome = Outcome{Unfinished, ErrFenced}
	} else {
		t.outcome.Result = Held
		s.parkLocked(t, err, &a)
	}
	s.mu.Unlock()
	s.do(&a)
}

func (s *Sequencer) deadLetter(ctx context.Context, e *Event, err error) {
	s.do(&after{notices: []Notice{{Kind: EventSkipped, Time: time.Now(), Stream: e.Positions[0].Stream, Event: e, Err: err}}})
	if s.cfg.DeadLetter == nil {
		return
	}
	if err := contain(func() error { return s.cfg.DeadLetter(ctx, e, err) }); err != nil {
		s.cfg.Logger.Error("dead letter was not taken", "event", e.Name(), "err", err)
	}
}

// finish ends a job, before its lock keys are free. An error means that the
// dispatcher ended first.
func (s *Sequencer) finish(j Job, err error) {
	t := j.task
	switch {
	case t.outcome.Result != 0:
	case t.committed:
		_, _ = s.result(t, err)
	case t.failure != nil:
		s.fail(t, t.failure)
	default:
		t.outcome = Outcome{Unfinished, s.submitError(err)}
	}
	done := t.outcome.Result != Held && t.outcome.Result != Unfinished && t.outcome.Result != Refused
	var a after
	s.mu.Lock()
	for _, slot := range t.slots {
		slot.stream.end(slot.number, done)
	}
	if t.outcome.Result == Held {
		t.outcome = Outcome{}
		s.holdLocked(t, &a)
		s.mu.Unlock()
		s.do(&a)
		return
	}
	if t.outcome.Result == Refused { // another holder has done what this one did not know of
		s.refuseLocked(t, t.outcome.Err, &a)
		s.loseLocked(&a, t.streams()...)
		s.mu.Unlock()
		s.do(&a)
		return
	}
	if errors.Is(t.outcome.Err, ErrFenced) {
		s.loseLocked(&a, t.streams()...)
	}
	if t.held && t.outcome.Result == Duplicate { // the store has not forgotten it with a commit
		s.forgetHeldLocked(t.heldEvent(), nil)
	}
	s.fedLocked(t)
	for _, slot := range t.slots {
		s.continueFeedingLocked(slot.stream)
		s.restLocked(slot.stream)
	}
	s.mu.Unlock()
	s.do(&a)
	s.tell(t)
}

// submitError is an error of the dispatcher as one of the sequencer.
func (s *Sequencer) submitError(err error) error {
	if errors.Is(err, dispatcher.ErrClosed) || errors.Is(err, dispatcher.ErrStopped) {
		if err := s.Err(); err != nil {
			return err
		}
	}
	return err
}

// lookAgainLocked looks at the streams of an event that waits no more.
func (s *Sequencer) lookAgainLocked(t *task, a *after) {
	for _, slot := range t.slots {
		s.checkHeadLocked(slot.stream, a)
	}
}
