package ordering

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
)

// Offer takes an event from a source. It waits while the dispatcher is full,
// while the store is asked for streams that are not in memory, and while the
// store takes in what is held; other offers wait meanwhile.
//
// If the error is nil, done, which may be nil, is called with the outcome.
// Otherwise the event was not accepted: the error is an [*EventError],
// [ErrNilEvent], [dispatcher.ErrTooLarge], that of ctx, [ErrClosed], one that
// wraps [ErrStopped], or the store's.
//
// A handler may offer events, with its context, but not wait for what becomes
// of them. Where the offer itself would have to wait for other handlers, its
// error is [dispatcher.ErrNested].
func (s *Sequencer) Offer(ctx context.Context, e *Event, done Done) error {
	if err := s.validate(e); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.passTurn()
	return s.offer(ctx, e, done)
}

// batchChunk is how many events of a batch are taken in one turn.
const batchChunk = 1024

// OfferBatch takes events in the order given, and asks the store for the
// streams of many of them at once. It returns how many were accepted, from the
// first on; if that is not all of them, the error is that of [Sequencer.Offer]
// for the next one.
func (s *Sequencer) OfferBatch(ctx context.Context, events []*Event, done Done) (accepted int, err error) {
	good := 0
	var bad error
	for good < len(events) && bad == nil {
		if bad = s.validate(events[good]); bad == nil {
			good++
		}
	}
	for accepted < good {
		n, err := s.offerChunk(ctx, events[accepted:min(good, accepted+batchChunk)], done)
		accepted += n
		if err != nil {
			return accepted, err
		}
	}
	return accepted, bad
}

func (s *Sequencer) offerChunk(ctx context.Context, events []*Event, done Done) (accepted int, err error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.passTurn()
	if err := s.load(ctx, s.unknown(events...)); err != nil {
		return 0, err
	}
	for _, e := range events {
		if err := s.offer(ctx, e, done); err != nil {
			return accepted, err
		}
		accepted++
	}
	return accepted, nil
}

func (s *Sequencer) validate(e *Event) error {
	if e == nil {
		return ErrNilEvent
	}
	if err := e.Validate(); err != nil {
		return err
	}
	most := s.cfg.Dispatcher.MaxPendingBytes
	if most == 0 {
		return nil
	}
	size, err := s.size(e)
	if err == nil && size > most {
		err = dispatcher.ErrTooLarge
	}
	if err != nil {
		return fmt.Errorf("ordering: event %.80q: %w", e.Name(), err)
	}
	return nil
}

// size asks for the size of an event. A panic is the error.
func (s *Sequencer) size(e *Event) (size int64, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &dispatcher.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return s.cfg.Dispatcher.Size(Job{Event: e}), nil
}

// begin takes the turn for a source.
func (s *Sequencer) begin(ctx context.Context) error {
	if s.stopped.Load() {
		return s.Err()
	}
	if err := s.waitForSpace(ctx); err != nil {
		return err
	}
	return s.takeTurn(ctx)
}

// offer finds an event's place, and submits what may run now. The caller has
// the turn.
func (s *Sequencer) offer(ctx context.Context, e *Event, done Done) error {
	t := s.newTask(e, done)
	var a after
	defer s.do(&a)
	s.mu.Lock()
	for !s.placeLocked(t) {
		s.mu.Unlock()
		if err := s.load(ctx, s.unknown(e)); err != nil {
			s.recycle(t)
			return err
		}
		s.mu.Lock()
	}
	if s.mu.err != nil {
		defer s.mu.Unlock()
		s.unplaceLocked(t)
		return s.mu.err
	}
	s.open.Add(1)
	ready := s.arriveLocked(t, &a)
	var behind []*stream // where events wait for this one
	if ready {
		s.advanceLocked(t, &a)
		for _, slot := range t.slots {
			if len(slot.stream.early) > 0 {
				behind = append(behind, slot.stream)
			}
		}
	}
	s.mu.Unlock()
	if !ready {
		return nil
	}
	if err := s.enter(ctx, t, func(_ error, a *after) { s.refundLocked(t, a) }); err != nil {
		return s.submitError(err)
	}
	s.pump(ctx, behind)
	return nil
}

// refundLocked lets go of a task that was ready and could not be submitted.
func (s *Sequencer) refundLocked(t *task, a *after) {
	for _, slot := range t.slots {
		s.closeGapLocked(slot.stream, a)
	}
	s.lookAgainLocked(t, a)
	s.unplaceLocked(t)
	s.open.Add(-1)
	s.drainedLocked()
}

// arriveLocked finds out what is to become of an event that has come. It is
// ready if it is the next one on all its streams; otherwise it was dealt with.
func (s *Sequencer) arriveLocked(t *task, a *after) (ready bool) {
	var other *task // on its way with a number of t
	done, ended, early := 0, false, false
	for _, slot := range t.slots {
		st, n := slot.stream, slot.number
		isDone, twin := st.onItsWay(n)
		if isDone {
			done++
		}
		if twin != nil {
			other = twin
		}
		early = early || n != st.next
		ended = ended || st.ended > 0 && n > st.ended
	}
	switch {
	case done > 0:
		s.checkLocked(t)
	case other != nil && other.event.IsCopy(t.event):
		s.joinTwinLocked(other, t, a)
	case (other != nil || ended) && !t.checked:
		s.checkLocked(t)
	case other != nil:
		s.refuseLocked(t, conflict(t.event, other.event), a)
	case ended:
		s.refuseLocked(t, ErrEnded, a)
	default:
		if !t.held {
			s.seeIDLocked(t.event, a)
		}
		return s.acceptLocked(t, early, a)
	}
	return false
}

// acceptLocked does so with an event that may run, now or later.
func (s *Sequencer) acceptLocked(t *task, early bool, a *after) (ready bool) {
	switch {
	case s.mustHoldLocked(t):
		s.holdLocked(t, a)
	case early || t.held:
		s.bufferLocked(t, a)
	default:
		return true
	}
	return false
}

// joinTwinLocked lets a copy of an event have the outcome of the first one, and
// wait with it if that is early.
func (s *Sequencer) joinTwinLocked(first, t *task, a *after) {
	e, done := t.event, t.done
	s.fedLocked(t)
	s.recycle(t)
	if done == nil { // nobody is to be told
		s.counts.add(Duplicate)
		s.open.Add(-1)
		s.drainedLocked()
		return
	}
	full := first.early && s.crowdedLocked(e)
	first.joined = append(first.joined, twin{e, done})
	if first.early {
		s.mu.early++
		s.mu.bytes += e.Size()
	}
	if full {
		s.overflowLocked(first, a)
	}
}

// endLocked ends a task that was not submitted.
func (s *Sequencer) endLocked(t *task, o Outcome, a *after) {
	s.fedLocked(t)
	for _, slot := range t.slots {
		s.restLocked(slot.stream)
	}
	t.outcome = o
	a.ended = append(a.ended, t)
}

// refuseLocked ends a task that can never run. One that the store holds was
// acknowledged, so it is parked for an operator.
func (s *Sequencer) refuseLocked(t *task, err error, a *after) {
	e := t.event
	for _, slot := range t.slots {
		a.notices = append(a.notices, Notice{Kind: EventRefused, Time: time.Now(), Stream: slot.stream.key, Event: e, Err: err})
	}
	if errors.As(err, new(*ConflictError)) {
		s.counts.conflicts.Add(1)
	}
	if t.held {
		s.rejectLocked(t, err, a)
		return
	}
	s.endLocked(t, Outcome{Result: Refused, Err: err}, a)
}
