package core

import (
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
)

// resume deletes a parking from the store, under all its IDs; then its streams
// are fed. Parkings that the next decisions are to heal are deleted with it, since
// the missing numbers of many may come at once.
func (m *Machine) resume(d *Decision) (over bool) {
	p := d.parking.live()
	if p.state == finished {
		return true
	}
	a := &Unpark{Fences: map[lockkeys.Key]int64{}}
	m.addUnpark(a, p)
	for _, next := range m.writes.decisions[1:] {
		if next.Kind != heal || len(a.parkings) == writeChunk || len(a.Fences) >= writeStreams {
			break
		}
		if p := next.parking.live(); p.state != finished && p.heals() && !slices.Contains(a.parkings, p) {
			m.addUnpark(a, p)
		}
	}
	m.write(a)
	return false
}

func (m *Machine) addUnpark(a *Unpark, p *parking) {
	a.parkings = append(a.parkings, p)
	a.IDs = append(a.IDs, p.ids...)
	for key := range p.streams {
		m.addFence(a.Fences, key)
	}
}

// unparkDone starts feeding the streams of the parkings.
func (m *Machine) unparkDone(a *Unpark) {
	m.writes.flying = nil
	gone := make(map[string]bool, len(a.IDs))
	for _, id := range a.IDs {
		gone[id] = true
	}
	for _, p := range a.parkings {
		if p := p.live(); p.state != finished {
			m.unparked(p, gone)
		}
	}
}

// unparked starts feeding the streams of a parking that the store has no more. If
// it has been joined with another during the Unpark, the store still has that one,
// with a part of the streams: it is written again, with all of them, and the
// decision about the parking goes on from there.
func (m *Machine) unparked(p *parking, gone map[string]bool) {
	for _, id := range p.ids {
		if !gone[id] {
			p.changes = append(p.changes, p.keys()...)
			m.dirty(p)
			return
		}
	}
	for _, st := range m.finish(p) {
		st.to(feeding)
		st.missing = 0
		m.feed(st)
		m.notify(Notice{Kind: StreamResumed, Range: Range{st.key, st.heldFrom, st.heldFrom}})
	}
}
