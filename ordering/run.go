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

// handle is one attempt at a job.
func (s *Sequencer) handle(ctx context.Context, j Job) error {
	t := j.task
	if t.committed { // by an attempt that failed after that
		t.outcome.Result = Applied
		return nil
	}
	if t.isLost() {
		t.outcome = Outcome{Unfinished, ErrFenced}
		return nil
	}
	for _, slot := range t.slots {
		if slot.stream.isHeld(slot.number) {
			if s.resolve(t) {
				return nil
			}
			t.outcome.Result = Held
			return dispatcher.Permanent(ErrHeld)
		}
	}
	if s.stopped.Load() {
		return dispatcher.Permanent(errHalted)
	}
	if t.refusal != nil {
		return dispatcher.Permanent(t.refusal)
	}
	return s.result(t, s.attempt(ctx, j))
}

// attempt calls the handler, unless it has succeeded before, and commits.
func (s *Sequencer) attempt(ctx context.Context, j Job) error {
	t := j.task
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
	return s.commit(ctx, t.record(Processed, ""))
}

// result notes how an attempt went; an error is one to be tried again.
func (s *Sequencer) result(t *task, err error) error {
	switch {
	case t.committed && err != nil:
		s.cfg.Logger.Warn("handler failed after its commit, which counts", "event", t.event.Name(), "err", err)
		t.outcome.Result = Applied
	case err == nil:
		t.outcome.Result = Applied
	case errors.Is(err, ErrDuplicate):
		t.outcome.Result = Duplicate
	case errors.Is(err, ErrFenced):
		t.outcome = Outcome{Unfinished, err}
	default:
		t.doubtful = t.doubtful || errors.As(err, new(*StoreError))
		return err
	}
	return nil
}

func (s *Sequencer) commit(ctx context.Context, r Record) error {
	err := s.cfg.Store.Commit(ctx, r)
	if err == nil || errors.Is(err, ErrDuplicate) || errors.Is(err, ErrFenced) || errors.As(err, new(*StoreError)) {
		return err
	}
	return &StoreError{"commit", err}
}

// commitSurely commits until it is known what came of it. The error wraps
// ErrDuplicate or ErrFenced, or tells why the sequencer ended first.
func (s *Sequencer) commitSurely(ctx context.Context, r Record) (err error) {
	failed := false
	known := s.insist(ctx, "commit", func() error {
		err = s.commit(ctx, r)
		if failed && errors.Is(err, ErrDuplicate) { // it only seemed to have failed
			err = nil
		}
		if err == nil || errors.Is(err, ErrDuplicate) || errors.Is(err, ErrFenced) {
			return nil
		}
		failed = true
		return err
	})
	if !known {
		return s.Err()
	}
	return err
}

// failureFor tells the dispatcher whether to stop.
func (s *Sequencer) failureFor(j Job, err error) dispatcher.FailurePolicy {
	t := j.task
	switch {
	case t.outcome.Result == Held, t.committed:
		return dispatcher.DeadLetter
	case errors.Is(err, errHalted):
		return dispatcher.Stop
	}
	if t.policy = s.policy(t.event, err); t.policy == Stop {
		s.mu.Lock()
		s.stopLocked(err)
		s.mu.Unlock()
		return dispatcher.Stop
	}
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

// fail sees to a job that failed for good, before its lock keys are free.
func (s *Sequencer) fail(ctx context.Context, j Job, err error) error {
	t := j.task
	switch {
	case t.outcome.Result == Held:
		return nil
	case t.committed:
		return s.result(t, err)
	case t.policy == Skip:
		switch cause := s.commitSurely(s.accepting, t.record(GivenUp, err.Error())); {
		case cause == nil:
			t.outcome = Outcome{DeadLettered, err}
			s.deadLetter(ctx, t.event, err)
		case errors.Is(cause, ErrDuplicate):
			t.outcome.Result = Duplicate
		default:
			t.outcome = Outcome{Unfinished, cause}
		}
		return nil
	}
	if s.resolve(t) {
		return nil
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
	return nil
}

// resolve looks whether an event that is about to be held is done after all, by
// a commit that only seemed to fail, and gives it its outcome then. It waits
// for the store to say so, which would have to hold it as well; if the
// sequencer ends first, the event is unfinished.
func (s *Sequencer) resolve(t *task) (done bool) {
	if !t.doubtful {
		return false
	}
	var job JobState
	known := s.insist(s.accepting, "look up a job state", func() (err error) {
		if job, err = s.cfg.Store.Job(s.accepting, t.event.Name()); errors.Is(err, ErrNoJob) {
			return nil
		}
		return err
	})
	switch {
	case !known:
		t.outcome = Outcome{Unfinished, s.Err()}
	case job.Status == Processed || job.Status == GivenUp:
		t.outcome.Result = Duplicate
	default:
		return false
	}
	return true
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
	if t.outcome.Result == 0 {
		t.outcome = Outcome{Unfinished, s.submitError(err)}
	}
	done := t.outcome.Result != Held && t.outcome.Result != Unfinished
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
	if errors.Is(t.outcome.Err, ErrFenced) {
		s.loseLocked(&a, t.streams()...)
	}
	if t.held && t.outcome.Result == Duplicate { // the store has not forgotten it with a commit
		s.clearLocked(t.heldEvent())
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
