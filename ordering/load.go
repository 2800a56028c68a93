package ordering

import (
	"context"

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
		if p := s.mu.parkings[states[i].Parked]; p != nil && !p.over {
			st.parking = p
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
