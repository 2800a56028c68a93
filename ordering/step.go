package ordering

import (
	"errors"
	"slices"
	"time"

	"github.com/interlock-go/interlock/ordering/internal/core"
)

// maxPending is the number of events waiting for the store beyond which offers
// wait, as they do beyond MaxEarlyBytes.
const maxPending = 4096

// step passes an input to the core, and executes the resulting actions.
// Callbacks are called on a goroutine of their own, since they may end it.
func (s *Sequencer[T]) step(in core.Input) { s.stepAnd(in, s.tellAside) }

// stepAnd is step with the function that reports outcomes and notices.
func (s *Sequencer[T]) stepAnd(in core.Input, tell func([]core.Action)) {
	s.mu.Lock()
	s.stepRest(in, tell)
}

// stepRest is stepAnd for a caller that has locked the mutex, which it unlocks.
func (s *Sequencer[T]) stepRest(in core.Input, tell func([]core.Action)) {
	s.doRest(s.stepLocked(in), tell)
}

// doRest does what a step says, for a caller who has locked the mutex, which it
// unlocks.
func (s *Sequencer[T]) doRest(actions []core.Action, tell func([]core.Action)) {
	for _, a := range actions {
		if a, ok := a.(core.Submit); ok {
			s.mu.queue = append(s.mu.queue, itemOf[T](a.Event))
		}
	}
	left := len(s.mu.queue) > 0
	actions = slices.Clone(actions)
	s.mu.Unlock()
	if left {
		s.submitter.wake()
	}
	s.execute(actions, tell)
}

// stepEnded is the step in which an event ends, on a goroutine of the dispatcher.
// What it mostly leads to, that the event's outcome is told, allocates nothing.
func (s *Sequencer[T]) stepEnded(it *item[T]) {
	s.mu.Lock()
	actions := s.stepLocked(core.Ended{Event: &it.Event})
	if a, ok := only[core.Tell](actions); ok {
		s.mu.Unlock()
		s.tell(itemOf[T](a.Event))
		return
	}
	s.doRest(actions, s.tellHere)
}

// only returns the one action that there is, if it is of type A.
func only[A core.Action](actions []core.Action) (a A, ok bool) {
	if len(actions) == 1 {
		a, ok = actions[0].(A)
	}
	return a, ok
}

// stepLocked makes a step of the core, and executes those actions that must
// come before the next step. The actions that it returns are valid while the
// mutex is locked.
func (s *Sequencer[T]) stepLocked(in core.Input) (actions []core.Action) {
	clear(s.mu.actions)
	actions = s.mu.core.Step(time.Now, in, s.mu.actions[:0])
	s.mu.actions = actions
	for _, a := range actions {
		switch a := a.(type) {
		case core.Recall: // while the event is sure to be on its way
			itemOf[T](a.Event).recalled.Store(true)
		case core.Stop:
			s.stopLocked(a.Err)
		case core.Replay:
			s.replayLocked(a)
		}
	}
	events, bytes := s.mu.core.Pending()
	crowded := events > maxPending || bytes > s.cfg.MaxEarlyBytes
	if crowded != s.crowded.Load() {
		s.crowded.Store(crowded)
	}
	if !crowded && s.mu.space != nil {
		close(s.mu.space)
		s.mu.space = nil
	}
	if s.mu.drained != nil {
		s.drainedLocked()
	}
	s.clock.setLocked(s.mu.core.Next())
	return actions
}

// execute executes the core's actions, except submissions, which the submitter
// makes.
func (s *Sequencer[T]) execute(actions []core.Action, tell func([]core.Action)) {
	telling := false
	for _, a := range actions {
		switch a := a.(type) {
		case core.Submit, core.Recall, core.Replay:
		case core.Tell, core.Notify, core.Decided:
			telling = true
		case core.Stop:
			s.logStop(a.Err)
		case *core.Load, *core.Look:
			s.reads.give(a)
		default:
			s.writes.give(a)
		}
	}
	if telling {
		tell(actions)
	}
}

// stopLocked ends the acceptance of events, for a failure or a shutdown.
func (s *Sequencer[T]) stopLocked(cause error) {
	if s.mu.err != nil {
		return
	}
	s.mu.err = stopError(cause)
	s.stopped.Store(true)
	s.halt()
}

// logStop logs why the sequencer has stopped.
func (s *Sequencer[T]) logStop(cause error) {
	var taken *TakenOverError
	switch {
	case errors.Is(cause, ErrClosed):
	case errors.As(cause, &taken):
		s.cfg.Logger.Error("sequencer stopped: another holder has taken over", "consumer", taken.Name, "partition", taken.Partition,
			"holder", taken.Holder, "since", taken.Since, "err", cause)
	default:
		s.cfg.Logger.Error("sequencer stopped", "err", cause)
	}
}

// stop ends the acceptance of events, for a failure.
func (s *Sequencer[T]) stop(cause error) { s.step(core.Stopped{Err: stopError(cause)}) }

func stopError(cause error) error {
	if errors.Is(cause, ErrStopped) || errors.Is(cause, ErrClosed) {
		return cause
	}
	return &stoppedError{cause}
}

// stoppedError is ErrStopped with its cause.
type stoppedError struct{ cause error }

func (e *stoppedError) Error() string   { return ErrStopped.Error() + ": " + e.cause.Error() }
func (e *stoppedError) Unwrap() []error { return []error{ErrStopped, e.cause} }
