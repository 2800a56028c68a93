package ordering

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Offer takes an event from a source. It waits while the dispatcher is full,
// while the store is asked for streams that are not in memory, and while the
// store takes in what is held; other offers wait meanwhile.
//
// If the error is nil, done, which may be nil, is called with the outcome.
// Otherwise the event was not accepted: the error is an [*EventError],
// [ErrNilEvent], that of ctx, [ErrClosed], one that wraps [ErrStopped], or the
// store's.
//
// A handler that offers events must not wait for them; see
// [dispatcher.ErrNested].
func (s *Sequencer) Offer(ctx context.Context, e *Event, done Done) error {
	if err := check(e); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.passTurn()
	return s.offer(ctx, e, done)
}

// OfferBatch takes events in the order given, and asks the store for all their
// streams at once. It returns how many were accepted, from the first on; if
// that is not all of them, the error is that of [Sequencer.Offer] for the next
// one.
func (s *Sequencer) OfferBatch(ctx context.Context, events []*Event, done Done) (accepted int, err error) {
	good := 0
	var bad error
	for good < len(events) && bad == nil {
		if bad = check(events[good]); bad == nil {
			good++
		}
	}
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.passTurn()
	if err := s.load(ctx, s.unknown(events[:good]...)); err != nil {
		return 0, err
	}
	for _, e := range events[:good] {
		if err := s.offer(ctx, e, done); err != nil {
			return accepted, err
		}
		accepted++
	}
	return accepted, bad
}

func check(e *Event) error {
	if e == nil {
		return ErrNilEvent
	}
	return e.Validate()
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
	s.do(&a)
	if !ready {
		return nil
	}
	if err := s.dispatcher.Submit(ctx, Job{e, t}, s.submit...); err != nil {
		s.mu.Lock()
		s.retreatLocked(t)
		for _, slot := range t.slots {
			s.closeGapLocked(slot.stream, &a)
			s.checkHeadLocked(slot.stream, &a)
		}
		s.unplaceLocked(t)
		s.open.Add(-1)
		s.mu.Unlock()
		s.do(&a)
		return s.submitError(err)
	}
	s.pump(ctx, behind)
	return nil
}

// pump submits the events at the heads of streams whose turn it is, and what
// follows from that. The caller has the turn. An event that ctx kept from
// being submitted is left to the keeper.
func (s *Sequencer) pump(ctx context.Context, streams []*stream) {
	for len(streams) > 0 {
		st := streams[len(streams)-1]
		var a after
		s.mu.Lock()
		t := st.early[st.next]
		if t == nil || !t.isNext() || s.mu.err != nil {
			s.checkHeadLocked(st, &a)
			s.mu.Unlock()
			s.do(&a)
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
		job := Job{t.event, t}
		s.mu.Unlock()
		s.do(&a)
		if err := s.dispatcher.Submit(ctx, job, s.submit...); err != nil {
			s.mu.Lock()
			s.retreatLocked(t)
			s.enterEarlyLocked(t)
			s.mu.Unlock()
			if s.background.Err() == nil {
				s.pumpLater(streams)
			}
			return
		}
	}
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

// placeLocked finds the streams of a task; found is false if one is not in
// memory.
func (s *Sequencer) placeLocked(t *task) (found bool) {
	for _, p := range t.event.Positions {
		st := s.mu.streams[p.Stream]
		if st == nil {
			t.slots = t.slots[:0]
			return false
		}
		t.slots = append(t.slots, slot{st, p.Number})
	}
	for _, slot := range t.slots {
		s.mu.idle.remove(slot.stream)
	}
	return true
}

// unplaceLocked lets go of a task that was not accepted.
func (s *Sequencer) unplaceLocked(t *task) {
	for _, slot := range t.slots {
		s.restLocked(slot.stream)
	}
	s.recycle(t)
}

// advanceLocked takes a task whose turn it is to its streams' windows.
func (s *Sequencer) advanceLocked(t *task, a *after) {
	for i, slot := range t.slots {
		st := slot.stream
		st.advance(t)
		t.fences = append(t.fences, st.fence)
		if t.event.Positions[i].End {
			s.endsLocked(st, slot.number, a)
		}
		if st.gap != nil {
			s.narrowGapLocked(st, a)
		}
	}
}

func (s *Sequencer) retreatLocked(t *task) {
	for _, slot := range t.slots {
		slot.stream.retreat(slot.number)
	}
	t.fences = t.fences[:0]
}

// unknown lists the streams of events that are not in memory.
func (s *Sequencer) unknown(events ...*Event) (keys []lockkeys.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var seen map[lockkeys.Key]bool
	for _, e := range events {
		for _, p := range e.Positions {
			if s.mu.streams[p.Stream] == nil && !seen[p.Stream] {
				if seen == nil {
					seen = map[lockkeys.Key]bool{}
				}
				seen[p.Stream] = true
				keys = append(keys, p.Stream)
			}
		}
	}
	return keys
}

// load gets streams from the store. The caller has the turn, or is alone.
func (s *Sequencer) load(ctx context.Context, keys []lockkeys.Key) error {
	if len(keys) == 0 {
		return nil
	}
	states, err := s.cfg.Store.Acquire(ctx, keys)
	if err != nil {
		return err
	}
	strange := false
	s.mu.Lock()
	for _, state := range states {
		strange = strange || state.Parked != "" && s.mu.parkings[state.Parked] == nil
	}
	s.mu.Unlock()
	if strange { // another holder has parked it
		if err := s.loadParkings(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		if s.mu.streams[key] != nil {
			continue
		}
		st := newStream(key, states[i])
		if st.parking = s.mu.parkings[states[i].Parked]; st.parking != nil {
			if at, ok := st.parking.streams[key]; ok { // not later than the store has it
				st.heldFrom.Store(min(st.heldFrom.Load(), at))
			}
			if n := st.parking.misses(key); n >= st.next {
				st.missing = n
			}
		}
		s.mu.streams[key] = st
		if st.isHeld(notHeld-1) && st.parking == nil {
			s.feedLocked(st)
		} else {
			s.mu.idle.push(st)
		}
	}
	return nil
}

// pin returns streams that stay in memory until they are unpinned. The caller
// has the turn.
func (s *Sequencer) pin(ctx context.Context, positions ...Position) ([]*stream, error) {
	e := &Event{Positions: positions}
	for {
		if err := s.load(ctx, s.unknown(e)); err != nil {
			return nil, err
		}
		t := &task{event: e}
		s.mu.Lock()
		if s.placeLocked(t) {
			break
		}
		s.mu.Unlock()
	}
	defer s.mu.Unlock()
	streams := make([]*stream, len(positions))
	for i, p := range positions {
		streams[i] = s.mu.streams[p.Stream]
		streams[i].pins++
	}
	return streams, nil
}

func (s *Sequencer) unpinLocked(streams []*stream) {
	for _, st := range streams {
		st.pins--
		s.restLocked(st)
	}
}

func (s *Sequencer) loadParkings(ctx context.Context) error {
	parked, err := s.cfg.Store.Parked(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range parked {
		if s.mu.parkings[p.ID] == nil {
			s.mu.parkings[p.ID] = restored(p)
		}
	}
	return nil
}

// arriveLocked finds out what is to become of an event that has come. It is
// ready if it is the next one on all its streams; otherwise it was dealt with.
func (s *Sequencer) arriveLocked(t *task, a *after) (ready bool) {
	var running *task
	done, held, ended, early := 0, false, false, false
	for _, slot := range t.slots {
		st, n := slot.stream, slot.number
		isDone, twin := st.isDone(n)
		if twin == nil || twin == undone {
			if waiting := st.early[n]; waiting != nil {
				twin = waiting
			}
		}
		switch {
		case isDone:
			done++
		case twin != nil && twin != undone:
			running = twin
		default:
			held = held || st.isHeld(n)
			early = early || n > st.next
			ended = ended || st.ended > 0 && n > st.ended
		}
	}
	switch {
	case done == len(t.slots):
		s.endLocked(t, Outcome{Result: Duplicate}, a)
	case running != nil && isTwin(running.event, t.event):
		running.joined = append(running.joined, twin{t.event, t.done})
		s.recycle(t)
	case running != nil:
		s.refuseLocked(t, &ContradictionError{[]*Event{running.event, t.event}}, a)
	case ended:
		s.refuseLocked(t, ErrEnded, a)
	case done > 0:
		s.refuseLocked(t, &ContradictionError{[]*Event{t.event}}, a)
	case held && !(t.held && s.feedsLocked(t)):
		s.holdLocked(t, a)
	case early || held:
		s.bufferLocked(t, a)
	default:
		return true
	}
	return false
}

// isTwin tells whether two events that have a number in common are copies of
// one.
func isTwin(a, b *Event) bool {
	if a.ID != b.ID || len(a.Positions) != len(b.Positions) {
		return false
	}
	for _, p := range a.Positions {
		if n, ok := b.On(p.Stream); !ok || n != p.Number {
			return false
		}
	}
	return true
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

func (s *Sequencer) refuseLocked(t *task, err error, a *after) {
	e := t.event
	for _, slot := range t.slots {
		a.notices = append(a.notices, Notice{Kind: EventRefused, Time: time.Now(), Stream: slot.stream.key, Event: e, Err: err})
	}
	s.endLocked(t, Outcome{Result: Refused, Err: err}, a)
}
