package core

import (
	"maps"
	"slices"
)

// wait keeps an event in memory until its turn. If there are too many, the
// stream that it waits for is closed, and the store holds its events until the
// missing number has come. A held event never closes a stream: feeding is
// bounded by its pages, and sent back to the store it would only be fed again.
func (m *Machine) wait(e *Event) {
	full := !e.Held && m.isFull(e)
	e.arrived = m.now()
	if e.Link == 0 && e.isAskedFor() {
		e.Link = 1
	}
	m.enterEarly(e)
	if full {
		m.overflow(e)
		return
	}
	m.touchAll(e)
}

// LimitEarly lowers MaxEarlyTotal to n, unless it is less already.
func (m *Machine) LimitEarly(n int) {
	m.cfg.MaxEarlyTotal = min(m.cfg.MaxEarlyTotal, max(n, 0))
}

// isAskedFor reports whether a replay is under way for one of the event's streams,
// which is presumably what has brought it, by way of the store for example.
func (e *Event) isAskedFor() bool {
	for i := range e.Slots {
		if e.Slots[i].stream.replaying {
			return true
		}
	}
	return false
}

func (m *Machine) isFull(e *Event) bool {
	if m.isCrowded(e.Cost) {
		return true
	}
	for i := range e.Slots {
		if len(e.Slots[i].stream.early) >= m.cfg.MaxEarly {
			return true
		}
	}
	return false
}

// isCrowded reports whether the bounds for all streams leave no room for one
// more event, or copy of one.
func (m *Machine) isCrowded(bytes int64) bool {
	return m.early >= m.cfg.MaxEarlyTotal || m.earlyBytes+bytes > m.cfg.MaxEarlyBytes
}

func (m *Machine) enterEarly(e *Event) {
	e.to(Early)
	for i := range e.Slots {
		e.Slots[i].stream.addEarly(e.Slots[i].Number, e)
	}
	m.early += 1 + len(e.Copies)
	m.earlyBytes += e.cost()
}

// leaveEarly removes an event from those that wait; the caller must set its
// next state.
func (m *Machine) leaveEarly(e *Event) {
	for i := range e.Slots {
		e.Slots[i].stream.removeEarly(e.Slots[i].Number)
	}
	m.early -= 1 + len(e.Copies)
	m.earlyBytes -= e.cost()
}

// overflow makes room by closing the stream that e ultimately waits for: all
// events behind its missing number go to the store, and the number is requested
// at once, without a grace time.
func (m *Machine) overflow(e *Event) {
	st := m.root(e)
	if st == nil || st.isHeld(st.next) || st.awaitsEpoch() { // that stream is closed already, or e waits in a cycle, or for a later epoch to begin: only e can go
		m.leaveEarly(e)
		m.hold(e)
		return
	}
	m.openGap(st)
	p := m.newParking(Waiting, nil)
	p.gap = Range{st.key, st.next, m.missingTo(st)}
	m.shut(st, st.next, st.next, p, "")
	m.ask(st.gap)
}

// root follows the chain of events that e waits for to the stream whose next
// number has not come. It returns nil if there is none, in a cycle for example.
func (m *Machine) root(e *Event) *stream {
	seen := map[*Event]bool{}
	for !seen[e] {
		seen[e] = true
		for i := range e.Slots {
			s := &e.Slots[i]
			if s.Number <= s.stream.next {
				continue
			}
			head := s.stream.early[s.stream.next]
			if head == nil {
				return s.stream
			}
			e = head
			break
		}
	}
	return nil
}

// missingTo returns the last of the missing numbers at the head of a stream, as
// far as known and in its epoch: the one before the first early event or, if that
// is held meanwhile, the end of the gap, or of the one the stream is parked for.
func (m *Machine) missingTo(st *stream) uint64 {
	_, n := st.firstEarly()
	if EpochOf(n) > EpochOf(st.next) {
		n = st.doneAfter()
	}
	if n > 0 {
		return max(st.next, n-1)
	}
	if st.gap != nil {
		return max(st.next, st.gap.to)
	}
	if st.missing > 0 && st.parking != nil && st.parking.gap.Key == st.key {
		return max(st.next, st.parking.gap.To)
	}
	return st.next
}

// endsAt records a stream's last number in an epoch. Events with later ones of
// that epoch can never run.
func (m *Machine) endsAt(st *stream, last uint64) {
	st.ended = max(st.ended, last)
	for _, n := range slices.Sorted(maps.Keys(st.early)) {
		if e := st.early[n]; e != nil && st.isBehindEnd(n) {
			m.leaveEarly(e)
			m.touchAll(e)
			m.refuse(e, m.cfg.Host.EndedError(e))
		}
	}
}
