package ordering

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// keys derives a job's lock keys. An event that has none to give fails when it
// is its turn, by its policy.
func (s *Sequencer) keys(j Job, claim *lockkeys.Claim) error {
	if err := s.cfg.Keys(j.Event, claim); err != nil {
		j.task.refusal = err
		claim.Reset()
		return streamKeys(j.Event, claim)
	}
	return nil
}

// handle is one attempt at a job.
func (s *Sequencer) handle(ctx context.Context, j Job) error {
	t := j.task
	for _, slot := range t.slots {
		if slot.stream.isHeld(slot.number) {
			t.outcome.Result = Held
			return dispatcher.Permanent(ErrHeld)
		}
	}
	if s.stopped.Load() {
		return dispatcher.Permanent(ErrStopped)
	}
	if t.refusal != nil {
		return dispatcher.Permanent(t.refusal)
	}
	if t.attempts++; t.started.IsZero() {
		t.started = time.Now()
	}
	t.committed = false
	err := s.cfg.Handler(ctx, j)
	if err == nil && !t.committed {
		err = s.commit(ctx, t.record(Processed, time.Now(), ""))
	}
	switch {
	case err == nil:
		t.outcome.Result = Applied
	case errors.Is(err, ErrDuplicate):
		t.outcome.Result = Duplicate
	case errors.Is(err, ErrFenced):
		t.outcome = Outcome{Unfinished, err}
	default:
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

// failureFor tells the dispatcher whether to stop.
func (s *Sequencer) failureFor(j Job, err error) dispatcher.FailurePolicy {
	switch {
	case j.task.outcome.Result == Held:
		return dispatcher.DeadLetter
	case errors.Is(err, ErrStopped):
		return dispatcher.Stop
	case s.policy(j, err) == Stop:
		s.mu.Lock()
		s.stopLocked(err)
		s.mu.Unlock()
		return dispatcher.Stop
	}
	return dispatcher.DeadLetter
}

func (s *Sequencer) policy(j Job, err error) Policy { return s.cfg.FailureFor(j.Event, err) }

// fail sees to a job that failed for good, before its lock keys are free.
func (s *Sequencer) fail(ctx context.Context, j Job, err error) error {
	t := j.task
	if t.outcome.Result == Held {
		return nil
	}
	if s.policy(j, err) == Skip {
		r := t.record(GivenUp, time.Now(), err.Error())
		switch cause := s.commit(ctx, r); {
		case cause == nil:
			t.outcome = Outcome{DeadLettered, err}
			s.deadLetter(ctx, j, err)
			return nil
		case errors.Is(cause, ErrDuplicate):
			t.outcome.Result = Duplicate
			return nil
		case errors.Is(cause, ErrFenced):
			t.outcome = Outcome{Unfinished, cause}
			return nil
		default:
			err = errors.Join(err, cause)
		}
	}
	var a after
	s.mu.Lock()
	t.outcome.Result = Held
	s.parkLocked(t, err, &a)
	s.mu.Unlock()
	s.do(&a)
	return nil
}

func (s *Sequencer) deadLetter(ctx context.Context, j Job, err error) {
	s.notify(Notice{Kind: EventSkipped, Time: time.Now(), Stream: j.Event.Positions[0].Stream, Event: j.Event, Err: err})
	if s.cfg.DeadLetter == nil {
		return
	}
	if err := s.cfg.DeadLetter(ctx, j.Event, err); err != nil {
		s.cfg.Logger.Error("dead letter was not taken", "event", j.Event.Name(), "err", err)
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
	switch {
	case t.outcome.Result == Held:
		t.outcome = Outcome{}
		s.holdLocked(t, &a)
		s.mu.Unlock()
		s.do(&a)
		return
	case errors.Is(t.outcome.Err, ErrFenced):
		for _, slot := range t.slots {
			s.loseLocked(slot.stream, &a)
		}
	}
	s.fedLocked(t)
	for _, slot := range t.slots {
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

// loseLocked forgets a stream that has another holder. What of it waits is
// given back to the source.
func (s *Sequencer) loseLocked(st *stream, a *after) {
	if st.gone {
		return
	}
	st.gone = true
	delete(s.mu.streams, st.key)
	s.mu.idle.remove(st)
	s.closeGapLocked(st, a)
	s.cfg.Logger.Warn("stream was taken over by another holder", "stream", st.key.String())
	for _, t := range st.early {
		s.leaveEarlyLocked(t)
		s.endLocked(t, Outcome{Unfinished, ErrFenced}, a)
	}
}
