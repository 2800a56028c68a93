package ordering

import (
	"context"
	"errors"
)

// fate is what a store says became of an event: nothing yet, which is the zero
// fate, or one of the others.
//
// It does not matter who has the streams by now: what is done stays done, and an
// event makes all its numbers done or none. So if some are, and not by the event
// itself, it can never run.
type fate struct {
	own     Status // Processed or GivenUp: the event's numbers are done by itself
	unknown bool   // all its numbers are done, by itself as far as can be told, since job states were pruned
	never   error  // why it can never run; it wraps ErrContradiction
}

func (f fate) isDone() bool { return f.own != 0 || f.unknown }

// fateOf judges what a store knows of positions of an event, which are all of
// them, or those that it is about to make done. The event's own job state is
// under one of them, so one that is another's, or is missing without having been
// pruned, tells that another event has made the number done.
func fateOf(e *Event, positions []Position, states []NumberState) fate {
	var f fate
	var other *ConflictError
	done := 0
	for i, state := range states {
		if !state.Done {
			continue
		}
		done++
		switch {
		case state.Job != nil && state.Job.IsOf(e):
			return fate{own: state.Job.Status}
		case state.Job != nil && (other == nil || other.Status == 0):
			other = &ConflictError{Event: e, Position: positions[i], Other: state.Job.Event, Status: state.Job.Status}
		case state.Job == nil && !state.Pruned && other == nil:
			other = &ConflictError{Event: e, Position: positions[i]}
		case state.Job == nil && state.Pruned:
			f.unknown = true
		}
	}
	switch {
	case other != nil:
		return fate{never: other}
	case 0 < done && done < len(states):
		return fate{never: &ContradictionError{[]*Event{e}}}
	}
	return f
}

// outcome is what the source of an event is told of a fate that is decided.
func (f fate) outcome() Outcome {
	if f.never != nil {
		return Outcome{Refused, f.never}
	}
	return Outcome{Result: Duplicate}
}

// look asks the store, until it answers, what became of an event that may have
// been done, by positions of it. It waits for the store to say so, since nothing
// is told of an event in doubt. away says that the store did not answer at once.
// If the sequencer ends first, the error is why.
func (s *Sequencer) look(e *Event, positions []Position) (f fate, states []NumberState, away bool, err error) {
	known := s.insist(s.accepting, "look up an event", func() (err error) {
		if states, err = s.cfg.Store.Look(s.background, positions); err != nil {
			away = true
			return err
		}
		f = fateOf(e, positions, states)
		return nil
	})
	if !known {
		return f, nil, away, s.endError()
	}
	return f, states, away, nil
}

// endError is why the sequencer has given up what it was about.
func (s *Sequencer) endError() error {
	if err := s.Err(); err != nil {
		return err
	}
	return ErrClosed
}

// resolve finds out what became of an event of which an attempt has failed: a
// commit may have been made durable though it seemed to fail, whatever the
// handler's own error. If the event is decided by that, settled is true and it
// has its outcome. Otherwise it is open for another attempt, or to be parked or
// given up; away tells then that the store was not there in the meantime.
func (s *Sequencer) resolve(t *task) (settled, away bool) {
	f, states, away, err := s.look(t.event, t.event.Positions)
	if err != nil {
		t.outcome = Outcome{Unfinished, err}
		return true, away
	}
	switch {
	case f.own == Processed && t.doubtful: // by an attempt of this task
		t.outcome = Outcome{Result: Applied}
	case f.isDone(), f.never != nil:
		t.outcome = f.outcome()
		if f.unknown {
			s.counts.unconfirmed.Add(1)
		}
	case s.isFenced(t, states):
		t.outcome = Outcome{Unfinished, ErrFenced}
	default:
		t.looked = true
		return false, away
	}
	return true, away
}

// isFenced tells whether a stream of the task had another holder when the states
// were asked for.
func (s *Sequencer) isFenced(t *task, states []NumberState) bool {
	for i, state := range states {
		if state.Fence != t.fences[i] {
			return true
		}
	}
	return false
}

// commitSurely commits until it is known what came of it: the fate of the
// numbers, which is r.Status if it was this record that made them done. The
// error wraps ErrFenced, or tells why the sequencer ended first.
func (s *Sequencer) commitSurely(ctx context.Context, e *Event, r Record) (f fate, err error) {
	known := s.insist(ctx, "commit", func() error {
		f = fate{own: r.Status}
		err = s.commit(ctx, r)
		if errors.Is(err, ErrDuplicate) {
			var states []NumberState
			if states, err = s.cfg.Store.Look(ctx, r.Event.Positions); err != nil {
				return err
			}
			f = fateOf(e, r.Event.Positions, states)
		}
		if errors.Is(err, ErrFenced) {
			return nil
		}
		return err
	})
	if !known {
		return f, s.endError()
	}
	return f, err
}

// checkLocked has the store asked about an event before it is told that it is a
// duplicate or refused: whether it is the one that was done, and whether what
// this sequencer knows of its streams is still so.
func (s *Sequencer) checkLocked(t *task) {
	for _, slot := range t.slots {
		slot.stream.pins++
	}
	s.keeper.mu.checks = append(s.keeper.mu.checks, t)
	s.keeper.addLocked(t)
	s.keeper.signal()
}

// checkChunk is how many numbers the store is asked for at a time.
const checkChunk = 512

// check asks the store about the events that were left to it, and has those that
// may run arrive once more.
func (s *Sequencer) check(ctx context.Context) {
	s.mu.Lock()
	tasks := s.keeper.mu.checks
	s.keeper.mu.checks = nil
	s.mu.Unlock()
	for len(tasks) > 0 {
		var positions []Position
		n := 0
		for n < len(tasks) && (n == 0 || len(positions)+len(tasks[n].slots) <= checkChunk) {
			positions = append(positions, tasks[n].event.Positions...)
			n++
		}
		chunk := tasks[:n]
		tasks = tasks[n:]
		var states []NumberState
		err := s.surely(ctx, "look up events", func() (err error) {
			states, err = s.cfg.Store.Look(ctx, positions)
			return err
		})
		again := s.checked(chunk, states, err)
		for _, t := range again {
			s.arriveAgain(ctx, t)
		}
	}
}

// checked ends the events that are decided by what the store says, and returns
// the others.
func (s *Sequencer) checked(tasks []*task, states []NumberState, err error) (again []*task) {
	var a after
	defer s.do(&a)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeper.removeLocked(tasks)
	for _, t := range tasks {
		for _, slot := range t.slots {
			slot.stream.pins--
		}
		if err != nil {
			s.endLocked(t, Outcome{Unfinished, ErrClosed}, &a)
			continue
		}
		own := states[:len(t.slots)]
		states = states[len(own):]
		var stale []*stream
		forgotten := false // by the store
		for i, slot := range t.slots {
			done, _ := slot.stream.isDone(slot.number)
			if slot.stream.gone || slot.stream.fence != own[i].Fence {
				stale = append(stale, slot.stream)
			} else if done && !own[i].Done {
				forgotten = true
			}
		}
		switch f := fateOf(t.event, t.event.Positions, own); {
		case forgotten:
			s.stopLocked(&LostError{Event: t.event})
			s.endLocked(t, Outcome{Unfinished, s.mu.err}, &a)
		case f.never != nil:
			s.refuseLocked(t, f.never, &a)
		case f.isDone():
			if f.unknown {
				s.counts.unconfirmed.Add(1)
			}
			if t.held {
				s.forgetHeldLocked(t.heldEvent(), nil)
			}
			s.endLocked(t, Outcome{Result: Duplicate}, &a)
		case t.held && len(stale) > 0: // it comes back from the store
			s.endLocked(t, Outcome{Unfinished, ErrFenced}, &a)
		default:
			t.checked = len(stale) == 0
			again = append(again, t)
		}
		s.loseLocked(&a, stale...)
	}
	return again
}

// arriveAgain finds the place of an event that was accepted before, on its
// streams as the store has them now.
func (s *Sequencer) arriveAgain(ctx context.Context, t *task) {
	var a after
	defer s.do(&a)
	if err := s.takeTurn(ctx); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endLocked(t, Outcome{Unfinished, s.mu.err}, &a)
		return
	}
	defer s.passTurn()
	t.slots = t.slots[:0]
	s.mu.Lock()
	for !s.placeLocked(t) {
		s.mu.Unlock()
		err := s.surely(ctx, "acquire", func() error { return s.load(ctx, s.unknown(t.event)) })
		s.mu.Lock()
		if err != nil {
			s.endLocked(t, Outcome{Unfinished, err}, &a)
			s.mu.Unlock()
			return
		}
	}
	streams := t.streams()
	if s.arriveLocked(t, &a) {
		s.enterEarlyLocked(t)
	}
	s.mu.Unlock()
	s.do(&a)
	s.pumpAside(streams)
}

// forgetHeldLocked has the store forget its copy of an event that will not run
// from there: it was done, or it can never run, for the reason why. Then it is a
// dead letter first, since its source was told that it is held.
func (s *Sequencer) forgetHeldLocked(h HeldEvent, why error) {
	s.opLocked(op{do: func(ctx context.Context) error {
		return s.surely(ctx, "forget a held event", func() error {
			if why != nil {
				return s.expel(ctx, h, why)
			}
			return s.forgetHeld(ctx, h)
		})
	}})
}

func (s *Sequencer) forgetHeld(ctx context.Context, h HeldEvent) error {
	if err := s.takeTurn(ctx); err != nil {
		return nil // it is over
	}
	defer s.passTurn()
	streams, err := s.pin(ctx, h.Positions...)
	if err != nil {
		return err
	}
	fences := make(Fences, len(streams))
	s.mu.Lock()
	for _, st := range streams {
		fences[st.key] = st.fence
	}
	s.mu.Unlock()
	err = s.cfg.Store.Forget(ctx, h.Event, fences)
	var a after
	s.mu.Lock()
	s.unpinLocked(streams)
	if errors.Is(err, ErrFenced) { // the new holder finds the same
		s.loseLocked(&a, streams...)
		err = nil
	}
	s.mu.Unlock()
	s.do(&a)
	return err
}
