package ordering

import (
	"context"
	"errors"
	"slices"

	"github.com/interlock-go/interlock/dispatcher"
)

// errUnwound is the error of a submission in which a function of the caller's
// ended the goroutine.
var errUnwound = errors.New("ordering: Keys or Dispatcher.Size called runtime.Goexit or panicked")

// enter submits a task that has advanced. If that fails, also by a panic or
// runtime.Goexit, failed is called under the mutex, with the task as it was
// before it advanced. The caller has the turn.
func (s *Sequencer) enter(ctx context.Context, t *task, failed func(err error, a *after)) (err error) {
	err = errUnwound
	defer func() {
		if err == nil {
			return
		}
		var a after
		s.mu.Lock()
		for _, slot := range t.slots {
			slot.stream.retreat(slot.number)
		}
		t.fences, t.refusal = t.fences[:0], nil
		failed(err, &a)
		s.mu.Unlock()
		s.do(&a)
	}()
	job := Job{t.event, t}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := s.dispatcher.TrySubmit(job, s.submit...); !errors.Is(err, dispatcher.ErrFull) {
		return err
	}
	defer s.turn.waits()()
	return s.dispatcher.Submit(ctx, job, s.submit...)
}

// pumpAside is pump without a source, on a goroutine that it is no loss to end.
func (s *Sequencer) pumpAside(streams []*stream) {
	err := contain(func() error {
		s.pump(s.background, slices.Clone(streams))
		return nil
	})
	if err != nil {
		s.cfg.Logger.Error("submission failed", "err", err)
		s.pumpLater(streams)
	}
}

// pump submits the events at the heads of streams whose turn it is, and what
// follows from that, and uses up the list of them. The caller has the turn. An
// event that ctx kept from being submitted is left to the keeper.
func (s *Sequencer) pump(ctx context.Context, streams []*stream) {
	var a after
	defer s.do(&a)
	for len(streams) > 0 {
		st := streams[len(streams)-1]
		s.mu.Lock()
		t := st.early[st.next]
		if t == nil || !t.isNext() || s.mu.err != nil {
			s.checkHeadLocked(st, &a)
			s.mu.Unlock()
			streams = streams[:len(streams)-1]
			continue
		}
		s.leaveEarlyLocked(t)
		for _, slot := range t.slots {
			if slot.stream != st {
				streams = append(streams, slot.stream)
			}
		}
		s.advanceLocked(t, &a)
		s.mu.Unlock()
		later := false
		_ = s.enter(ctx, t, func(err error, a *after) { later = s.putBackLocked(t, err, a) })
		if later {
			s.pumpLater(streams)
			return
		}
	}
}

// putBackLocked keeps an event that was accepted and could not be submitted;
// for later, unless it never can be.
func (s *Sequencer) putBackLocked(t *task, err error, a *after) (later bool) {
	switch {
	case errors.Is(err, dispatcher.ErrTooLarge), errors.Is(err, errUnwound), errors.As(err, new(*dispatcher.PanicError)):
		s.parkLocked(t, err, a)
		s.holdLocked(t, a)
		return false
	case t.isLost(): // meanwhile
		s.loseLocked(a, t.streams()...)
		s.endLocked(t, Outcome{Unfinished, ErrFenced}, a)
	case s.mustHoldLocked(t): // its stream was closed meanwhile
		s.holdLocked(t, a)
	default:
		s.enterEarlyLocked(t)
	}
	return s.mu.err == nil
}

// isNext tells whether it is the task's turn on all its streams.
func (t *task) isNext() bool {
	for _, slot := range t.slots {
		if slot.number != slot.stream.next || slot.stream.isHeld(slot.number) {
			return false
		}
	}
	return true
}

// advanceLocked takes a task whose turn it is to its streams' windows.
func (s *Sequencer) advanceLocked(t *task, a *after) {
	for _, slot := range t.slots {
		slot.stream.advance(t)
		t.fences = append(t.fences, slot.stream.fence)
	}
	for i, slot := range t.slots { // now that none of them is at rest
		st := slot.stream
		if t.event.Positions[i].End {
			s.endsLocked(st, slot.number, a)
		}
		if st.gap != nil {
			s.narrowGapLocked(st, a)
		}
	}
}
