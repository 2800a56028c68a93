package core

import (
	"math"
	"slices"
)

// readOn reads the next page of held events, if there may be more.
func (m *Machine) readOn(d *Decision) {
	read := &ReadHeld{Key: d.Key, From: d.from, Limit: feedPage, Bytes: feedBytes, decision: d}
	switch {
	case d.Kind == giveUpFaults && len(d.faults) == 0:
		d.to(dResuming)
		return
	case d.Kind == giveUpFaults:
		first := d.faults[0].Slots[0]
		read.Key, read.From, read.Limit = first.Key, first.Number, 2 // those with the same number may contradict each other
		if d.most > 0 {
			read.Limit, read.Bytes = d.most, math.MaxInt64
		}
	}
	d.to(dReading)
	m.write(read)
}

// decisionRead takes a page of held events. When counting, only their numbers
// matter.
func (m *Machine) decisionRead(d *Decision, page []*Event) {
	if d.state == dCounting {
		for _, e := range page {
			n := e.on(d.stream)
			d.come = d.come.Add(Span{n, n})
			d.from = n + 1
		}
		d.skip.counted = len(page) == 0 || d.from > d.skip.last()
		return
	}
	d.to(dDealing)
	switch d.Kind {
	case Drop:
		if len(page) == 0 {
			d.to(dResuming)
		} else {
			d.from = page[len(page)-1].on(d.stream) + 1
		}
	case giveUpFaults:
		page = d.find(page)
	}
	d.page = page
}

// find returns the failed event that is to be given up, of those that are held at its first
// number. If there may be more of these than the page has, they are read again, with more.
func (d *Decision) find(page []*Event) []*Event {
	fault := d.faults[0]
	first := fault.Slots[0]
	later := func(s Slot) bool { return s.Key == first.Key && s.Number > first.Number }
	whole := len(page) < d.most || len(page) == 0 || slices.ContainsFunc(page[len(page)-1].Slots, later)
	page = slices.DeleteFunc(page, func(e *Event) bool { return !sameNumbers(e.Slots, fault.Slots) })
	if whole || len(page) > 0 {
		d.most = 0
	} else {
		d.most = max(4, 2*d.most)
	}
	return page
}

func sameNumbers(a, b []Slot) bool {
	return slices.EqualFunc(a, b, func(s, t Slot) bool { return s.Key == t.Key && s.Number == t.Number })
}

// dealWith deals with the first event of the page, or with the missing numbers
// before it: these are skipped first, since the stream must become done without
// a gap. It returns true if streams have to be loaded first.
func (m *Machine) dealWith(d *Decision) (blocked bool) {
	if len(d.page) == 0 {
		if d.Kind == SkipHead { // the stream is closed at missing numbers, not at an event
			to := d.at
			if d.parking.gap.Key == d.Key {
				to = max(to, d.parking.gap.To)
			}
			m.startSkip(d, toSkip{parts: Spans{{d.at, to}}, most: uint64(m.cfg.MaxSkip), counted: true})
			return false
		}
		if d.Kind == giveUpFaults && d.most == 0 {
			d.faults = d.faults[1:]
		}
		m.readOn(d)
		return false
	}
	e := d.page[0]
	if !m.has(e.Slots) {
		return true
	}
	if d.Kind != giveUpFaults {
		n := e.on(d.stream)
		if EpochOf(n) > EpochOf(d.at) {
			m.startSkip(d, toEpoch(d.at, n))
			return false
		}
		if n > d.at {
			m.startSkip(d, toSkip{parts: Spans{{d.at, n - 1}}, most: uint64(m.cfg.MaxSkip), counted: true})
			return false
		}
	}
	m.giveUp(d, e)
	return false
}

// dealtWith removes the first event of the page, which was given up or
// forgotten, or is left alone.
func (d *Decision) dealtWith() {
	d.page = d.page[1:]
	if d.state != dDealing { // else it was left alone
		d.to(dDealing)
	}
	if d.Kind == SkipHead {
		d.to(dResuming)
	}
}
