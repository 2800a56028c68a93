package ordering

import (
	"context"
	"maps"
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
)

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

// load gets streams from the store, with all that are parked together with
// them. The caller has the turn, or is alone.
func (s *Sequencer) load(ctx context.Context, keys []lockkeys.Key) error {
	if len(keys) == 0 {
		return nil
	}
	states, err := s.cfg.Store.Acquire(ctx, keys)
	if err != nil {
		return err
	}
	parkings, others, err := s.parkingsOf(ctx, keys, states)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		more, err := s.cfg.Store.Acquire(ctx, others)
		if err != nil {
			return err
		}
		keys, states = slices.Concat(keys, others), slices.Concat(states, more)
	}
	var a after
	defer s.do(&a)
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range parkings {
		if old := s.mu.parkings[id]; old != nil { // another holder has had it since
			s.loseParkingLocked(&a, old)
		}
		for key := range p.streams {
			if st := s.mu.streams[key]; st != nil { // was lost when it was parked
				s.loseLocked(&a, st)
			}
		}
	}
	for i, key := range keys {
		s.enterLocked(newStream(key, states[i]), parkings[states[i].Parked])
	}
	for id, p := range parkings {
		s.mu.parkings[id], p.epoch = p, s.mu.idle.epoch
		p.Events = slices.DeleteFunc(p.Events, s.isDoneLocked)
	}
	return nil
}

// parkingsOf returns the parkings of streams that were acquired just now, so
// that nobody else can change them any more, and what else they close.
func (s *Sequencer) parkingsOf(ctx context.Context, keys []lockkeys.Key, states []StreamState) (parkings map[string]*parking, others []lockkeys.Key, err error) {
	wanted := map[string]bool{}
	for _, state := range states {
		if state.Parked != "" {
			wanted[state.Parked] = true
		}
	}
	if len(wanted) == 0 {
		return nil, nil, nil
	}
	list, err := s.cfg.Store.Parked(ctx, slices.Collect(maps.Keys(wanted))...)
	if err != nil {
		return nil, nil, err
	}
	acquired := make(map[lockkeys.Key]bool, len(keys))
	for _, key := range keys {
		acquired[key] = true
	}
	parkings = map[string]*parking{}
	for _, p := range list {
		parkings[p.ID] = restored(p)
		for _, position := range p.Streams {
			if !acquired[position.Stream] {
				others = append(others, position.Stream)
			}
		}
	}
	return parkings, others, nil
}

// enterLocked has a stream in memory, which belongs to a parking, or to none.
func (s *Sequencer) enterLocked(st *stream, p *parking) {
	s.mu.streams[st.key] = st
	if p == nil {
		if st.isHeld(notHeld - 1) {
			s.feedLocked(st)
		} else {
			s.mu.idle.push(st)
		}
		return
	}
	st.parking = p
	st.heldFrom.Store(min(st.heldFrom.Load(), p.streams[st.key])) // not later than the store has it
	if n := p.misses(st.key); n >= st.next {
		st.missing = n
	}
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
