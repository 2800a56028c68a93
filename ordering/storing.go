package ordering

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// store carries out an action on the store, and returns the resulting input for
// the core.
func (s *Sequencer[T]) store(a core.Action) (in core.Input, err error) {
	switch a := a.(type) {
	case *core.Load:
		return s.doLoad(a)
	case *core.Look:
		return s.doLook(a)
	case *core.Hold:
		return s.doHold(a)
	case *core.Park:
		parkings := make([]Parking, len(a.Parkings))
		for i, change := range a.Parkings {
			parkings[i] = parkingOf(change.ParkingState)
			if change.Log {
				s.logParking(parkings[i], change.All)
			}
		}
		return core.ParkDone{Park: a}, s.insist(s.background, "park", nil, func() error { return s.term.Park(s.background, parkings, a.Fences) })
	case *core.Unpark:
		return core.UnparkDone{Unpark: a}, s.insist(s.background, "unpark", nil, func() error { return s.term.Unpark(s.background, a.IDs, a.Fences) })
	case *core.ReadHeld:
		return s.doReadHeld(a)
	case *core.Skip:
		return s.doSkip(a)
	case *core.GiveUp:
		return s.doGiveUp(a)
	case *core.Forget:
		return s.doForget(a)
	}
	return nil, fmt.Errorf("ordering: unknown action %T", a)
}

func (s *Sequencer[T]) doLoad(a *core.Load) (in core.Input, err error) {
	var loaded core.Loaded
	err = s.insist(s.background, "acquire", nil, func() (err error) {
		loaded, err = s.load(s.background, a.Keys)
		return err
	})
	return loaded, err
}

// load acquires streams from the store, with all that are parked together with
// them.
func (s *Sequencer[T]) load(ctx context.Context, keys []lockkeys.Key) (in core.Loaded, err error) {
	if len(keys) == 0 {
		return in, nil
	}
	states, err := s.term.Acquire(ctx, keys)
	if err != nil {
		return in, err
	}
	wanted := map[string]bool{}
	for _, state := range states {
		if state.Parked != "" {
			wanted[state.Parked] = true
		}
	}
	if len(wanted) > 0 {
		acquired := map[lockkeys.Key]bool{}
		for _, key := range keys {
			acquired[key] = true
		}
		// The streams are acquired, so no other holder can change their
		// parkings.
		parkings, err := s.term.Parked(ctx, slices.Sorted(maps.Keys(wanted))...)
		if err != nil {
			return in, err
		}
		var others []lockkeys.Key
		for _, p := range parkings {
			in.Parkings = append(in.Parkings, stateOf(p))
			for _, c := range p.Streams {
				if !acquired[c.Stream] {
					acquired[c.Stream] = true
					others = append(others, c.Stream)
				}
			}
		}
		if len(others) > 0 {
			more, err := s.term.Acquire(ctx, others)
			if err != nil {
				return in, err
			}
			keys, states = slices.Concat(keys, others), slices.Concat(states, more)
		}
	}
	for i, st := range states {
		in.Streams = append(in.Streams, core.StreamState{Key: keys[i], Last: st.Last, Done: st.Done, Fence: st.Fence,
			Ended: st.Ended, HeldAt: st.HeldAt, Parked: st.Parked})
	}
	return in, nil
}

// doLook finds the fate of events by the states of their numbers in the store.
func (s *Sequencer[T]) doLook(a *core.Look) (core.Input, error) {
	var positions []Position
	for _, e := range a.Events {
		positions = append(positions, itemOf[T](e).event.Positions...)
	}
	var states []NumberState
	err := s.insist(s.background, "look up events", nil, func() (err error) {
		states, err = s.term.Look(s.background, positions)
		return err
	})
	if err != nil {
		return nil, err
	}
	in := core.Looked{Events: a.Events}
	for _, e := range a.Events {
		it := itemOf[T](e)
		own := states[:len(it.event.Positions)]
		states = states[len(own):]
		in.Verdicts = append(in.Verdicts, s.verdict(it, fateOf(it.event, it.event.Positions, own)))
	}
	return in, nil
}

// verdict converts a fate for the core.
func (s *Sequencer[T]) verdict(it *item[T], f fate) core.Verdict {
	switch {
	case f.never != nil:
		return core.Verdict{Kind: core.Never, Err: f.never}
	case f.isDone():
		s.confirm(it, f)
		return core.Verdict{Kind: core.Done, Err: f.err()}
	}
	return core.Verdict{}
}

// confirm copies the status and the reply of the first copy to a duplicate.
func (s *Sequencer[T]) confirm(it *item[T], f fate) {
	if f.unknown {
		s.counts.unconfirmed.Add(1)
		if !it.brief { // else it is what the source wants
			s.tellAlone(Notice{Kind: Unconfirmed, Time: time.Now(), Event: it.event, Err: ErrUnconfirmed})
		}
	}
	if f.job != nil {
		it.status, it.reply = f.job.Status, f.job.Reply
		if s.mayBeUntold(f.job) {
			s.deadLetter(it.event, &GivenUpError{Job: *f.job})
		}
	}
}

// mayBeUntold reports whether the process may have ended between the record that an
// event was given up by policy and the call of Config.DeadLetter: its source has no
// acknowledgement then, and sends it again. The record has the clock of that process, which
// may be another machine's. What this term gives up in its first minute may be
// dead-lettered twice because of that, and nothing is lost.
func (s *Sequencer[T]) mayBeUntold(j *JobState) bool {
	p := s.info.Previous
	return p != nil && !p.Ended && j.Status == StatusDeadLettered && j.By == "" && j.Reason == "" &&
		j.Ended.Before(s.info.Since.Add(clockSkew))
}

// clockSkew is how far the clocks of two processes may differ.
const clockSkew = time.Minute

// doHold holds events in the store. If one of them conflicts with a held event,
// they are held one by one to find out which.
func (s *Sequencer[T]) doHold(a *core.Hold) (core.Input, error) {
	in := core.HoldDone{Events: a.Events}
	err := s.hold(a.Events)
	if !isConflict(err) {
		return in, err
	}
	for i := range a.Events {
		err := s.hold(a.Events[i : i+1])
		if err != nil && !isConflict(err) {
			return nil, err
		}
		in.Errs = append(in.Errs, err)
	}
	return in, nil
}

func (s *Sequencer[T]) hold(held []*core.Event) error {
	events := make([]*Event, len(held))
	fences := Fences{}
	for i, e := range held {
		events[i] = itemOf[T](e).event
		for _, slot := range e.Slots {
			fences[slot.Key] = slot.Fence
		}
	}
	return s.insist(s.background, "hold", isConflict, func() error { return s.term.Hold(s.background, events, fences) })
}

func isConflict(err error) bool {
	var conflict *ConflictError
	return errors.As(err, &conflict)
}

func (s *Sequencer[T]) doReadHeld(a *core.ReadHeld) (core.Input, error) {
	var page []HeldEvent
	err := s.insist(s.background, "read what is held", nil, func() (err error) {
		page, err = s.term.Held(s.background, a.Key, a.From, a.Limit, a.Bytes)
		return err
	})
	if err != nil {
		return nil, err
	}
	in := core.HeldRead{ReadHeld: a}
	for _, h := range page {
		in.Events = append(in.Events, &s.heldItem(h).Event)
	}
	return in, nil
}

func (s *Sequencer[T]) doSkip(a *core.Skip) (core.Input, error) {
	for _, part := range a.Parts {
		skipped := Skipped{Stream: a.Key, From: part.From, To: part.To, Fence: a.Fence, Known: a.Known, By: a.By, Reason: because(a.Why, a.Cause).Error(), Time: time.Now()}
		err := s.insist(s.background, "skip", nil, func() error { return s.term.Skip(s.background, skipped) })
		if err != nil {
			return nil, err
		}
	}
	return core.SkipDone{Skip: a}, nil
}

// doGiveUp marks a held event's numbers as done without its effect, except
// those that another event has. The event is dead-lettered first, unless it was
// done after all: its source has an acknowledgement, so after a crash in
// between it is better dead-lettered twice than never.
func (s *Sequencer[T]) doGiveUp(a *core.GiveUp) (core.Input, error) {
	it := itemOf[T](a.Event)
	in := core.GiveUpDone{GiveUp: a, Result: core.GivenUp}
	f, _, err := s.look(s.background, it)
	switch {
	case err != nil:
		return nil, err
	case f.isDone():
		in.Result = core.Duplicate
		return in, s.forget(it, fencesOf(a.Event.Slots))
	}
	s.deadLetter(it.event, because(a.Why, a.Cause))
	if len(a.Slots) == 0 {
		return in, s.forget(it, fencesOf(a.Event.Slots))
	}
	free := &Event{ID: it.event.Name()}
	failure := ""
	if a.Cause != nil {
		failure = a.Cause.Error()
	}
	r := it.record(StatusDeadLettered, failure)
	r.Hash = it.event.Hash()
	r.Event, r.Fences, r.Known, r.Held, r.By, r.Reason = free, nil, nil, true, a.By, a.Why.Error()
	for _, slot := range a.Slots {
		p := PositionAt(slot.Key, slot.Number)
		p.End = slot.End
		free.Positions = append(free.Positions, p)
		r.Fences = append(r.Fences, slot.Fence)
		r.Known = append(r.Known, slot.Known)
	}
	err = s.insist(s.background, "give up", isDuplicate, func() error { return s.commit(s.background, &r) })
	if isDuplicate(err) { // an earlier commit only seemed to fail
		err = nil
	}
	return in, err
}

func isDuplicate(err error) bool { return errors.Is(err, ErrDuplicate) }

func (s *Sequencer[T]) doForget(a *core.Forget) (core.Input, error) {
	it := itemOf[T](a.Event)
	if a.Why != nil {
		s.deadLetter(it.event, a.Why)
	} else if f, _, err := s.look(s.background, it); err != nil {
		return nil, err
	} else if !f.isDone() && f.never == nil { // it was, before the store lost commits
		return nil, host[T]{}.LostError(a.Event)
	}
	return core.ForgetDone{Forget: a}, s.forget(it, a.Fences)
}

func (s *Sequencer[T]) forget(it *item[T], fences Fences) error {
	return s.insist(s.background, "forget a held event", nil, func() error { return s.term.Forget(s.background, it.event, fences) })
}

func fencesOf(slots []core.Slot) Fences {
	fences := make(Fences, len(slots))
	for _, slot := range slots {
		fences[slot.Key] = slot.Fence
	}
	return fences
}

// commitApplied commits an event whose handler has succeeded.
func (s *Sequencer[T]) commitApplied(ctx context.Context, it *item[T]) error {
	r := it.record(StatusApplied, "")
	return s.commit(ctx, &r)
}

// commit commits a record. A failure of the store is returned as a
// [*StoreError].
func (s *Sequencer[T]) commit(ctx context.Context, r *Record) error {
	err := s.term.Commit(ctx, *r)
	if err == nil {
		return nil
	}
	var away *StoreError
	if isDuplicate(err) || isFinal(err) || errors.As(err, &away) {
		return err
	}
	return &StoreError{"commit", err}
}

// because combines the reason for giving something up with the cause of its
// parking.
func because(why, cause error) error {
	if cause == nil || cause == why {
		return why
	}
	return fmt.Errorf("%w: %w", why, cause)
}
