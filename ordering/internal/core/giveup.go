package core

import "slices"

// giveUp gives up a held event at those of its numbers that are neither done
// nor used by another event. If a copy of it is in flight, it is left alone:
// that was accepted before the stream was closed, and its outcome counts.
func (m *Machine) giveUp(d *Decision, e *Event) {
	var free []Slot
	for i := range e.Slots {
		s := &e.Slots[i]
		done, other := s.stream.find(s.Number)
		if other != nil && m.cfg.Host.IsCopy(e, other) {
			d.dealtWith()
			return
		}
		if !done && other == nil {
			free = append(free, *s)
			free[len(free)-1].Known = s.stream.known()
		}
	}
	m.pin(e)
	d.to(dGivingUp)
	m.write(&GiveUp{Event: e, Slots: free, Why: d.Why, Cause: d.cause(), By: d.By, decision: d})
}

// giveUpDone marks numbers as done: without an effect or, if the event turned
// out to be done, by a commit that only seemed to fail.
func (m *Machine) giveUpDone(in GiveUpDone) {
	m.writes.flying = nil
	hasGone(in.Event)
	m.unpin(in.Event)
	for _, s := range in.Slots {
		if s.End {
			m.endsAt(s.stream, s.Number)
		}
		m.setDone(s.stream, s.Number, s.Number)
	}
	for _, s := range in.Slots { // another parking may be for this event alone
		if p := s.stream.parking; p != nil && p != in.decision.parking.live() {
			p.faults = slices.DeleteFunc(p.faults, func(f Fault) bool { return sameNumbers(f.Slots, in.Event.Slots) })
			m.review(p)
		}
	}
	if d := in.decision; d.state != dOver {
		d.dealtWith()
	}
}
