package core

import "slices"

// mustHold reports whether an event has to be held because a stream of it is
// closed at its number. An event that is fed is an exception: on its streams
// that are fed too, and not parked, it waits in memory until they are fed as
// far as its number.
func (m *Machine) mustHold(e *Event) bool {
	for i := range e.Slots {
		s := &e.Slots[i]
		if s.stream.isHeld(s.Number) && !(e.Held && s.stream.parking == nil) {
			return true
		}
	}
	return false
}

// hold writes an event to the store that cannot run because a stream of it is
// closed.
func (m *Machine) hold(e *Event) { m.holdAll([]*Event{e}, nil) }

// holdAll holds several events, closes all their streams at their numbers, and
// does the same with the early events that this displaces, since nothing may
// overtake a held event. It is a loop over a growing list, not a recursion,
// since such chains may be long. The parkings of all streams it meets become
// one.
func (m *Machine) holdAll(events []*Event, p *parking) {
	for len(events) > 0 {
		e := events[0]
		events = events[1:]
		for i := range e.Slots {
			p = m.join(e.Slots[i].stream.parking, p)
		}
		by := ""
		for i := range e.Slots {
			s := &e.Slots[i]
			st := s.stream
			if s.Number == st.missing { // the missing number has come: once held, its parking can be resumed
				st.missing = 0
				e.fills = p
			}
			if by == "" && !st.isHeld(s.Number) {
				by = m.cfg.Host.Name(e)
			}
			events = append(events, m.closeFrom(st, s.Number, 0, &p, by)...)
			if st.holding == nil {
				st.holding = map[uint64]int{}
			}
			st.holding[s.Number]++
		}
		if p != nil && p.heals() && e.isFirst() { // nothing is missing before it: its parking need not wait for a number
			e.fills = p
		}
		e.to(Holding)
		switch {
		case e.Held: // the store has it already
			m.held(e)
		default:
			m.addPending(e, 1)
			m.writes.holds = append(m.writes.holds, e)
		}
	}
}

// holdDone ends the events of a Hold.
func (m *Machine) holdDone(in HoldDone) {
	m.writes.flying = nil
	for i, e := range in.Events {
		m.addPending(e, -1)
		if in.Errs != nil && in.Errs[i] != nil {
			m.unhold(e)
			m.refuse(e, in.Errs[i])
			continue
		}
		m.held(e)
	}
}

// held ends an event that the store holds now.
func (m *Machine) held(e *Event) {
	m.unhold(e)
	if !e.Held {
		m.writes.hasCome(e)
	}
	m.reopen(e.fills.live())
	m.end(e, Held, nil)
}

// unhold records that an event is no longer being written to the store, which
// feeding may have waited for.
func (m *Machine) unhold(e *Event) {
	for i := range e.Slots {
		s := &e.Slots[i]
		if s.stream.holding[s.Number]--; s.stream.holding[s.Number] == 0 {
			delete(s.stream.holding, s.Number)
		}
		m.goOnFeeding(s.stream)
	}
}

func sortByKey(streams []*stream) {
	slices.SortFunc(streams, func(a, b *stream) int { return a.key.Compare(b.key) })
}
