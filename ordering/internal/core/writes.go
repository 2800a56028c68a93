package core

import (
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
)

// work is the store's writing lane, with everything that waits for it. One
// action is under way at a time. Parkings are written before the events held
// for them, so that a held event is never without its parking; and both are
// written before held events are read.
type work struct {
	flying    Action // under way, or nil
	parkings  []*parking
	holds     []*Event
	forgets   []*Forget
	decisions []*Decision // the first one may have begun
	feeds     []*stream   // the feeding of the first one may have begun
}

// Bounds of what is written in one transaction: of the events held, or of the
// parkings written or deleted. The streams and bytes of one event or parking may be
// more.
const (
	writeChunk   = 256
	writeStreams = 4096
	writeBytes   = 4 << 20
)

// nextWrite starts the next action of the writing lane, unless one is under
// way. The order of the cases is the order of work. A stopped machine only
// writes parkings and holds.
func (m *Machine) nextWrite() {
	w := &m.writes
	for w.flying == nil {
		switch {
		case len(w.parkings) > 0:
			m.writeParkings()
		case len(w.holds) > 0:
			m.write(&Hold{Events: w.nextHolds()})
		case m.state != running:
			return
		case len(w.forgets) > 0:
			f := w.forgets[0]
			if !m.has(f.Event.Slots) {
				return
			}
			w.forgets = w.forgets[1:]
			m.writeForget(f)
		case len(w.decisions) > 0:
			d := w.decisions[0]
			over, err := m.advance(d)
			if over {
				w.decisions = w.decisions[1:]
				m.decided(d, err)
			} else if w.flying == nil {
				return
			}
		case len(w.feeds) > 0:
			if !m.feedNext(w.feeds[0]) {
				return
			}
		default:
			*w = work{}
			return
		}
	}
}

func (m *Machine) write(a Action) {
	m.writes.flying = a
	m.do(a)
}

// dropWork drops the work that a stopped machine does not do. Nothing is lost:
// the store still has the held events, and the next machine feeds them.
func (m *Machine) dropWork() {
	w := &m.writes
	decisions := w.decisions
	w.forgets, w.decisions, w.feeds = nil, nil, nil
	for _, d := range decisions {
		d.to(dOver)
		if d.Kind <= Drop {
			m.do(Decided{d, m.cause})
		}
	}
}

func (w *work) nextHolds() []*Event {
	size, n := int64(0), 0
	for n < len(w.holds) && n < writeChunk {
		if size += w.holds[n].Size; size > writeBytes && n > 0 {
			break
		}
		n++
	}
	chunk := slices.Clone(w.holds[:n])
	w.holds = w.holds[n:]
	return chunk
}

// allHolds returns the events that are being held, or wait for that.
func (w *work) allHolds() []*Event {
	if h, ok := w.flying.(*Hold); ok {
		return slices.Concat(h.Events, w.holds)
	}
	return w.holds
}

// hasCome records that the store holds an event now. Pages read from its
// streams before lack it: a page that has not been placed yet is read again,
// and a decision that has begun adds its numbers to those that have come.
func (w *work) hasCome(e *Event) {
	for i := range e.Slots {
		s := &e.Slots[i]
		s.stream.readAgain()
		if len(w.decisions) > 0 && w.decisions[0].stream == s.stream {
			d := w.decisions[0]
			d.come = d.come.Add(Span{s.Number, s.Number})
		}
	}
}

// hasGone records that the store no longer holds an event, or has it as done. A
// page that was read before is older: it is read again, or the event would be fed
// though it was dead-lettered.
func hasGone(e *Event) {
	for i := range e.Slots {
		e.Slots[i].stream.readAgain()
	}
}

// isFor reports whether the action under way, or a queued decision, is for a
// parking, so that it must stay in memory.
func (w *work) isFor(p *parking) bool {
	switch a := w.flying.(type) {
	case *Park:
		if slices.ContainsFunc(a.Parkings, func(c ParkingChange) bool { return c.parking == p }) {
			return true
		}
	case *Unpark:
		if slices.Contains(a.parkings, p) {
			return true
		}
	}
	return slices.ContainsFunc(w.decisions, func(d *Decision) bool { return d.parking.live() == p })
}

// writeParkings writes changed parkings to the store.
func (m *Machine) writeParkings() {
	w := &m.writes
	a := &Park{Fences: map[lockkeys.Key]int64{}}
	streams, bytes := 0, int64(0)
	for len(w.parkings) > 0 && len(a.Parkings) < writeChunk && streams < writeStreams && bytes < writeBytes {
		p := w.parkings[0]
		w.parkings = w.parkings[1:]
		if p.state != changed {
			continue
		}
		c := m.takeChange(p)
		streams += len(c.Streams)
		for _, f := range c.Faults {
			bytes += f.Size
		}
		for _, closed := range c.Streams {
			m.addFence(a.Fences, closed.Key)
		}
		a.Parkings = append(a.Parkings, c)
	}
	if len(a.Parkings) > 0 {
		m.write(a)
	}
}

// takeChange returns what has changed of a parking, to be written. Its size is
// linear in that, not in the streams that the store has in it already.
func (m *Machine) takeChange(p *parking) ParkingChange {
	p.to(written)
	p.faults = slices.DeleteFunc(p.faults, m.isDone) // else the store would hold done events again
	log := len(p.streams) >= 2*p.told
	if log {
		p.told = len(p.streams)
	}
	changes := append(p.changes, p.first)
	p.changes = nil
	slices.SortFunc(changes, lockkeys.Key.Compare)
	changes = slices.Compact(changes)
	return ParkingChange{ParkingState: p.snapshot(changes), All: len(p.streams), Log: log, parking: p, ids: len(p.ids)}
}

// parkDone drops the other IDs that a parking had when it was written: the
// store has moved their streams to it and deleted them. IDs that were added
// during the write are kept.
func (m *Machine) parkDone(a *Park) {
	m.writes.flying = nil
	for _, c := range a.Parkings {
		p := c.parking
		if p.state == finished {
			continue
		}
		later := p.ids[c.ids:]
		p.ids = append([]string{p.id}, slices.DeleteFunc(slices.Clone(later), func(id string) bool { return id == p.id })...)
	}
}

// forget deletes the store's copy of an event that will not run: it was done,
// or it can never run, for the reason why.
func (m *Machine) forget(e *Event, why error) {
	m.writes.forgets = append(m.writes.forgets, &Forget{Event: m.cfg.Host.Detach(e), Why: why})
}

// writeForget starts a Forget for an event whose streams are in memory.
func (m *Machine) writeForget(f *Forget) {
	f.Fences = fencesOf(f.Event.Slots)
	m.pin(f.Event)
	m.write(f)
}

func (m *Machine) forgetDone(f *Forget) {
	m.writes.flying = nil
	hasGone(f.Event)
	m.unpin(f.Event)
	if d := f.decision; d != nil && d.state != dOver {
		d.dealtWith()
	}
}

// pin keeps an event's streams in memory, since an action with their tokens is
// under way.
func (m *Machine) pin(e *Event) {
	for i := range e.Slots {
		e.Slots[i].stream.pins++
		m.idle.remove(e.Slots[i].stream)
	}
}

func (m *Machine) unpin(e *Event) {
	for i := range e.Slots {
		e.Slots[i].stream.pins--
		m.rest(e.Slots[i].stream)
	}
}

func fencesOf(slots []Slot) map[lockkeys.Key]int64 {
	fences := make(map[lockkeys.Key]int64, len(slots))
	for _, s := range slots {
		fences[s.Key] = s.Fence
	}
	return fences
}
