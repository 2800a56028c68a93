package core

import (
	"maps"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// parking is a set of streams that are closed together, and the reason. It
// grows when an event on several streams is held: nothing may overtake that on
// any of them.
//
// When an event is held, the parkings of its streams become one. Those of its streams
// that are fed at that time have none: each of them is closed again, and joins, when it comes
// to the event, whatever has become of the others by then.
//
// Invariant: a parking is in memory with all its streams, or not at all: loading one of
// them loads the others.
type parking struct {
	state   parkingState
	id      string
	reason  Reason
	streams map[lockkeys.Key]Closed
	first   lockkeys.Key   // of streams; it stands for all of them in each write, so that a lost one is noticed
	changes []lockkeys.Key // those of streams that the store has not as they are, possibly several times
	faults  []Fault
	gap     Range
	cause   error
	since   time.Time

	ids     []string  // the IDs under which the store may have it: its own, and those of parkings that became part of it
	into    *parking  // the parking that it became part of
	changed time.Time // when it changed last
	told    int       // the number of streams when it was last reported
	leaving bool      // MaxSpread was reached, and its failed events are being given up
}

// parkingState says whether the store has the current parking.
//
//	from       to         when
//	(none)     written    it was loaded, or has no streams yet
//	changed    written    the store has it as it is
//	written    changed    it has grown
//	any        finished   it was resumed, has left memory, or became part of another
type parkingState uint8

const (
	changed  parkingState = iota // it is in the list of parkings to be written
	written                      // the store has it, or a Park is under way
	finished                     // only pending answers refer to it. Invariant: no stream has it
)

var parkingMoves = moves{
	of:    "a parking",
	names: []string{"changed", "written", "finished"},
	next: []uint16{
		changed:  1<<written | 1<<finished,
		written:  1<<changed | 1<<finished,
		finished: 0,
	},
}

func (p *parking) to(next parkingState) { move(&parkingMoves, &p.state, next) }

// live returns the parking that this one became part of, or itself; nil for
// nil.
func (p *parking) live() *parking {
	for p != nil && p.into != nil {
		p = p.into
	}
	return p
}

// missingOf returns the missing number for which the parking closes a stream,
// or 0 if it is closed for another reason.
func (p *parking) missingOf(st *stream) uint64 {
	n := p.streams[st.key].Number
	switch {
	case p.gap.Key == st.key:
		n = p.gap.From
	case !p.heals() || p.streams[st.key].By != "":
		return 0
	}
	if done, _ := st.isDone(n); done {
		return 0
	}
	return n
}

// heals reports whether the parking needs no operator: it has no failed event,
// so it is resumed once the missing numbers have come.
func (p *parking) heals() bool { return len(p.faults) == 0 }

// heals reports whether the stream is parked for a number that was missing and is held by
// now: its parking is about to be resumed.
func (st *stream) heals() bool {
	closed := st.parking.streams[st.key]
	done, _ := st.isDone(closed.Number)
	return st.parking.heals() && st.missing == 0 && closed.By == "" && !done
}

// closes returns the number at which the parking closes a stream, or 0 for a
// nil parking.
func (p *parking) closes(st *stream) uint64 {
	if p == nil {
		return 0
	}
	return p.streams[st.key].Number
}

// snapshot returns the parking in the form that a store keeps, with some of its
// streams.
func (p *parking) snapshot(streams []lockkeys.Key) ParkingState {
	s := ParkingState{ID: p.id, Reason: p.reason, Gap: p.gap, Cause: p.cause, Since: p.since,
		Faults: append([]Fault(nil), p.faults...), Streams: make([]Closed, 0, len(streams))}
	for _, key := range streams {
		s.Streams = append(s.Streams, p.streams[key])
	}
	return s
}

// keys returns the keys of the streams, in any order.
func (p *parking) keys() []lockkeys.Key { return slices.Collect(maps.Keys(p.streams)) }

// set records where the parking closes a stream.
func (p *parking) set(c Closed) {
	if len(p.streams) == 0 {
		p.first = c.Key
	}
	p.streams[c.Key] = c
	p.changes = append(p.changes, c.Key)
}

func (m *Machine) restore(s ParkingState) *parking {
	p := &parking{state: written, id: s.ID, reason: s.Reason, faults: s.Faults, gap: s.Gap, cause: s.Cause, since: s.Since,
		streams: make(map[lockkeys.Key]Closed, len(s.Streams)), ids: []string{s.ID}, changed: m.now(), told: len(s.Streams)}
	for _, c := range s.Streams {
		p.set(c)
	}
	p.changes = nil
	m.parkings[p] = struct{}{}
	m.timers.set(m.now().Add(m.cfg.IdleTTL), p)
	return p
}

func (m *Machine) newParking(reason Reason, cause error) *parking {
	p := &parking{state: written, id: m.cfg.NewID(), reason: reason, cause: cause, since: m.now(),
		streams: map[lockkeys.Key]Closed{}, changed: m.now()}
	p.ids = []string{p.id}
	m.parkings[p] = struct{}{}
	m.timers.set(m.now().Add(m.cfg.IdleTTL), p)
	return p
}

// park closes the streams of a failed event, from its numbers on.
func (m *Machine) park(e *Event, cause error) {
	p := m.newParking(Failure, cause)
	p.faults = append(p.faults, m.faultOf(e))
	for i := range e.Slots {
		p = m.shut(e.Slots[i].stream, e.Slots[i].Number, 0, p, "")
	}
}

// shut closes a stream from number n on, and holds its early events from there
// on. missing is the missing number that it is closed for, or 0. by is the name
// of the event that is held at n, or "" if n is missing or the number of a
// failed event. It returns the parking that the stream belongs to then: p, or
// an earlier one that p was joined with.
func (m *Machine) shut(st *stream, n, missing uint64, p *parking, by string) *parking {
	m.holdAll(m.closeFrom(st, n, missing, &p, by), p)
	return p.live()
}

// closeFrom closes one stream, and returns the early events that have to be
// held as a result: the caller holds them, which may close their other streams.
// If *p is nil, the stream is closed only because it is fed, and goes on being
// fed.
func (m *Machine) closeFrom(st *stream, n, missing uint64, p **parking, by string) (displaced []*Event) {
	if st.parking != nil && st.parking != *p { // a held event may have only one parking
		*p = m.join(st.parking, *p)
	}
	if st.isHeld(n) && st.parking == *p && missing == 0 {
		return nil
	}
	if !st.isHeld(n) {
		st.closeAt(n)
		m.recall(st, n)
	}
	if missing > 0 {
		st.missing = missing
	}
	if st.gap != nil && st.isHeld(st.gap.from) && st.missing == 0 {
		m.closeGap(st)
	}
	m.idle.remove(st)
	if *p == nil {
		st.to(feeding)
		m.feed(st)
	} else {
		m.closedBy(st, *p, by)
	}
	for _, number := range slices.Sorted(maps.Keys(st.early)) { // sorted, so that the simulation is deterministic
		if st.isHeld(number) {
			displaced = append(displaced, st.early[number])
		}
	}
	slices.SortStableFunc(displaced, func(a, b *Event) int { return a.arrived.Compare(b.arrived) })
	for _, e := range displaced {
		m.leaveEarly(e)
	}
	return displaced
}

// closedBy adds a stream to a parking.
func (m *Machine) closedBy(st *stream, p *parking, by string) {
	if st.parking == nil {
		var fault any
		if len(p.faults) > 0 {
			fault = p.faults[len(p.faults)-1].Owner
		}
		m.notify(Notice{Kind: StreamParked, Range: Range{st.key, st.heldFrom, st.heldFrom}, Reason: p.reason, Fault: fault, Err: p.cause})
	}
	st.to(parked)
	st.parking = p
	p.set(Closed{Key: st.key, Number: st.heldFrom, By: by})
	m.dirty(p)
	m.limitSpread(p)
}

// limitSpread bounds the spread of a failure: a failed event closes its
// streams, the events held behind it close their other streams, and so on. At
// MaxSpread streams, the failed events are given up, or the machine stops.
func (m *Machine) limitSpread(p *parking) {
	if m.cfg.MaxSpread == 0 || len(p.streams) <= m.cfg.MaxSpread || len(p.faults) == 0 || p.leaving || m.state != running {
		return
	}
	p.leaving = true
	err := m.cfg.Host.SpreadError(p.snapshot(p.keys()))
	if m.cfg.SpreadStops {
		m.stop(err)
		return
	}
	m.decide(&Decision{Kind: giveUpFaults, parking: p, Why: err})
}

// join makes one parking of two, since an event is held by both. Either may be
// nil. The larger one absorbs the smaller, so that many joins cost little.
func (m *Machine) join(p, q *parking) *parking {
	switch p, q = p.live(), q.live(); {
	case q == nil || p == q:
		return p
	case p == nil:
		return q
	case len(p.streams)+len(p.faults) < len(q.streams)+len(q.faults):
		p, q = q, p
	}
	if q.since.Before(p.since) {
		p.since = q.since
	}
	p.faults = append(p.faults, q.faults...)
	for _, key := range slices.SortedFunc(maps.Keys(q.streams), lockkeys.Key.Compare) {
		c := q.streams[key]
		if old, ok := p.streams[key]; ok && old.Number <= c.Number {
			c = old
		}
		p.set(c)
		if st := m.streams[key]; st != nil && st.parking == q {
			st.parking = p
		}
	}
	if len(p.faults) > 0 && p.cause == nil {
		p.cause, p.reason = q.cause, q.reason
	}
	q.to(finished)
	q.into, q.streams = p, nil
	delete(m.parkings, q)
	p.ids = append(p.ids, q.ids...) // the store has it under those until p is written
	p.leaving = p.leaving || q.leaving
	m.dirty(p)
	return p
}

// dirty records a change of a parking, and queues it to be written.
func (m *Machine) dirty(p *parking) {
	p.changed = m.now()
	if p.state == written {
		p.to(changed)
		m.writes.parkings = append(m.writes.parkings, p)
	}
}

// finish removes a parking from memory, and returns its streams in the order of
// their keys.
func (m *Machine) finish(p *parking) (streams []*stream) {
	p.to(finished)
	delete(m.parkings, p)
	for key := range p.streams {
		if st := m.streams[key]; st != nil && st.parking == p {
			st.parking = nil
			streams = append(streams, st)
		}
	}
	p.streams = nil // its timer may keep it for long
	sortByKey(streams)
	return streams
}

// addFence adds the fencing token of a stream to others.
func (m *Machine) addFence(fences map[lockkeys.Key]int64, key lockkeys.Key) {
	if st := m.streams[key]; st != nil {
		fences[key] = st.fence
	}
}

// faultOf returns the record of a failed event for its parking.
func (m *Machine) faultOf(e *Event) Fault {
	f := m.cfg.Host.FaultOf(e)
	f.Size = e.Size
	return f
}

// isDone reports whether all numbers of a failed event are known to be done.
func (m *Machine) isDone(f Fault) bool {
	for i := range f.Slots {
		st := m.streams[f.Slots[i].Key]
		if st == nil {
			return false
		}
		if done, _ := st.isDone(f.Slots[i].Number); !done {
			return false
		}
	}
	return true
}

// reject parks a held event that can never run, at those of its numbers that
// are neither done nor used by another event. Its source has an
// acknowledgement, so it must not be dropped. If none of its numbers is free,
// there is nothing to park: the store forgets it, which dead-letters it.
func (m *Machine) reject(e *Event, cause error) {
	var free []*Slot
	for i := range e.Slots {
		s := &e.Slots[i]
		if done, other := s.stream.find(s.Number); !done && other == nil {
			free = append(free, s)
		}
	}
	if len(free) == 0 {
		m.forget(e, cause)
		m.end(e, Refused, cause)
		return
	}
	p := m.newParking(Contradiction, cause)
	p.faults = append(p.faults, m.faultOf(e))
	for _, s := range free {
		p = m.shut(s.stream, s.Number, 0, p, "")
	}
	m.end(e, Held, nil)
}

// reopen resumes a parking whose missing numbers have come.
func (m *Machine) reopen(p *parking) {
	if p != nil && p.state != finished && p.heals() {
		m.decide(&Decision{Kind: heal, parking: p})
	}
}
