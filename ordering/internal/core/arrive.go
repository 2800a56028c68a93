package core

import (
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
)

// arrived accepts an event from a source. Events are processed in the order of
// their arrival, so that those whose lock keys conflict run in that order, even
// without a common stream: while one waits for its streams to be loaded, those
// after it wait too.
func (m *Machine) arrived(e *Event) {
	if m.state != running {
		m.end(e, Unfinished, m.cause)
		return
	}
	if len(m.arrivals) > 0 || !m.place(e) {
		m.arrivals = append(m.arrivals, e)
		m.addPending(e, 1)
		return
	}
	m.arrive(e)
}

// admit processes the arrivals in order, up to the first whose streams are not
// all in memory. A stopped machine leaves them, to be given back.
func (m *Machine) admit() {
	n := 0
	for n < len(m.arrivals) && m.state == running && m.place(m.arrivals[n]) {
		m.addPending(m.arrivals[n], -1)
		m.arrive(m.arrivals[n])
		n++
	}
	m.arrivals = slices.Delete(m.arrivals, 0, n)
	m.admitted += uint64(n)
	m.takeAnswers()
}

// addPending adds an event to the count of those that wait for the store, or
// removes it if sign is -1.
func (m *Machine) addPending(e *Event, sign int) {
	m.pending += sign
	m.pendBytes += int64(sign) * e.Size
}

// Pending returns how many events wait for the store, and their bytes. They are
// not bounded here: the caller must apply backpressure to its sources.
func (m *Machine) Pending() (events int, bytes int64) { return m.pending, m.pendBytes }

// place sets the streams of an event. found is false if one is not in memory, or
// if a skip of the event's number is being written: until that has ended it is
// open whether the event comes too late.
func (m *Machine) place(e *Event) (found bool) {
	for i := range e.Slots {
		s := &e.Slots[i]
		st := m.streams[s.Key]
		if st == nil || st.isSkipping(s.Number) {
			return false
		}
		s.stream, s.Fence = st, st.fence
	}
	for i := range e.Slots {
		m.idle.remove(e.Slots[i].stream)
	}
	return true
}

// arrive decides about an event whose streams are in memory. The order of the
// cases matters: a number that is done, or used by another event in flight,
// decides before anything else, since then the event must not run; only an
// event that may still run can be held, wait or be submitted.
func (m *Machine) arrive(e *Event) {
	if len(e.Slots) == 0 {
		m.arriveCommand(e)
		return
	}
	var other *Event // in flight with a number of e
	done, ended, early := false, false, false
	for i := range e.Slots {
		st, n := e.Slots[i].stream, e.Slots[i].Number
		isDone, twin := st.find(n)
		if twin != nil {
			other = twin
		}
		done = done || isDone
		early = early || n != st.next
		ended = ended || st.isBehindEnd(n)
	}
	switch {
	case done:
		m.check(e)
	case other != nil && m.cfg.Host.IsCopy(e, other):
		m.joinCopy(other, e)
	case other != nil:
		m.refuse(e, m.cfg.Host.ConflictError(e, other))
	case ended:
		m.refuse(e, m.cfg.Host.EndedError(e))
	case m.mustHold(e):
		m.hold(e)
	case early || e.Held: // a held event may be next by number and still be closed on another stream that is fed less far
		m.wait(e)
	default:
		m.submit(e)
	}
}

// arriveCommand submits a command, unless one with its ID is in flight. If that says
// something else, this one waits for what becomes of it, since nobody knows yet which of
// them has the ID: the other one may be about to be refused by the store, and this one a
// copy of what was done. It is ordered by the time at which it is its turn.
func (m *Machine) arriveCommand(e *Event) {
	switch other := m.commands[e.ID]; {
	case other == nil:
		m.commands[e.ID] = e
		e.to(Submitted)
		m.do(Submit{e})
	case m.cfg.Host.IsCopy(e, other):
		m.joinCopy(other, e)
	default:
		e.to(Contending)
		e.arrived = m.now()
		other.rivals = append(other.rivals, e)
	}
}

// freeID ends the contention for the ID of a command that is in flight no more: those that
// say something else are refused if the store has the ID as that of this one, and
// arrive anew otherwise.
func (m *Machine) freeID(e *Event, r Result) {
	delete(m.commands, e.ID)
	rivals := e.rivals
	e.rivals = nil
	for _, rival := range rivals {
		switch {
		case r.isDone():
			m.refuse(rival, m.cfg.Host.ConflictError(rival, e))
		case m.state != running:
			m.end(rival, Unfinished, m.cause)
		default:
			rival.to(Arriving)
			m.arriveCommand(rival)
		}
	}
}

// joinCopy gives a copy of an event the outcome of the first one. If that is
// early, the copy waits in memory too, and counts against the bounds for early
// events; if there is no room, the stream that both wait for is closed, so that
// they go to the store.
func (m *Machine) joinCopy(first, e *Event) {
	full := first.state == Early && m.isCrowded(e.Size)
	first.Copies = append(first.Copies, e)
	if first.state == Early {
		m.early++
		m.earlyBytes += e.Size
	}
	if full {
		m.overflow(first)
	}
}

// lane is the store's reading lane. A Load and a Look may be under way at the
// same time, but not two of either.
type lane struct {
	loading bool
	looking bool
	wanted  []lockkeys.Key // streams that the writing lane waits for
	checks  []*Event       // waiting for a Look
	flying  []*Event       // of the Look under way
}

// checkChunk bounds the numbers of a Look, unless that is for one event.
const checkChunk = 512

// nextRead starts a Load and a Look, if there is something to read and none is
// under way. A stopped machine loads no streams, but still checks: sources wait
// for the outcome.
func (m *Machine) nextRead() {
	l := &m.loads
	if !l.loading && m.state == running {
		if keys := m.unknown(); len(keys) > 0 {
			l.loading = true
			m.do(&Load{Keys: keys})
		}
	}
	if !l.looking && len(l.checks) > 0 {
		n, numbers := 0, 0
		for n < len(l.checks) && (n == 0 || numbers+len(l.checks[n].Slots) <= checkChunk) {
			numbers += len(l.checks[n].Slots)
			n++
		}
		l.looking = true
		l.flying = slices.Clone(l.checks[:n])
		l.checks = slices.Delete(l.checks, 0, n)
		m.do(&Look{Events: slices.Clone(l.flying)})
	}
}

// loadChunk is about how many streams are loaded at a time.
const loadChunk = 4096

// unknown returns the streams that an arrival or a write waits for and that are
// not in memory.
func (m *Machine) unknown() (keys []lockkeys.Key) {
	if len(m.arrivals) == 0 && len(m.loads.wanted) == 0 {
		return nil
	}
	seen := map[lockkeys.Key]bool{}
	add := func(key lockkeys.Key) {
		if m.streams[key] == nil && !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	for _, key := range m.loads.wanted {
		add(key)
	}
	for _, e := range m.arrivals {
		for i := range e.Slots {
			add(e.Slots[i].Key)
		}
		if len(keys) >= loadChunk {
			break
		}
	}
	return keys
}

// has reports whether all streams are in memory, and if so sets them; the
// missing ones will be loaded, and then the writing lane tries again.
func (m *Machine) has(slots []Slot) bool {
	all := true
	for i := range slots {
		if st := m.streams[slots[i].Key]; st != nil {
			slots[i].stream, slots[i].Fence = st, st.fence
		} else {
			all = false
			if !m.loads.loading { // else the next try after that load asks for it
				m.loads.wanted = append(m.loads.wanted, slots[i].Key)
			}
		}
	}
	return all
}

// loaded takes the streams of a Load.
func (m *Machine) loaded(in Loaded) {
	m.loads.loading, m.loads.wanted = false, nil
	m.enter(in)
	m.admit()
}

// enter adds streams to memory, with the parkings that close them.
func (m *Machine) enter(in Loaded) {
	parkings := map[string]*parking{}
	for _, p := range in.Parkings {
		parkings[p.ID] = m.restore(p)
	}
	for _, state := range in.Streams {
		if m.streams[state.Key] != nil {
			continue // it was loaded before, together with another stream of its parking
		}
		st := newStream(state)
		m.streams[st.key] = st
		switch p := parkings[state.Parked]; {
		case p != nil:
			st.parking, st.state = p, parked
			st.missing = p.missingOf(st)
		case st.heldFrom != notHeld: // its parking was resumed, and the feeding has not ended: go on
			st.state = feeding
			m.feed(st)
		default: // whatever has asked for it finds it, even if it has ended
			m.becomesIdle(st, m.now())
		}
	}
	for _, loaded := range in.Parkings {
		m.review(parkings[loaded.ID])
	}
}

// review resumes a parking that has no reason any more.
func (m *Machine) review(p *parking) {
	p.faults = slices.DeleteFunc(p.faults, m.isDone)
	if !m.isFor(p) {
		m.reopen(p)
	}
}

// isFor reports whether a parking without failed events still has a reason: numbers
// are missing, and no event is held before them. Such an event was fed, and ran,
// when an earlier process ended, so it has to run again first.
func (m *Machine) isFor(p *parking) bool {
	missing := false
	for key, c := range p.streams {
		st := m.streams[key]
		if st.parking != p { // it was in memory: the store is an older copy
			continue
		}
		if st.heldFrom < c.Number {
			return false
		}
		missing = missing || st.missing > 0
	}
	return missing
}

// began continues what an earlier machine has left in the store: events that
// are held and not parked are fed, missing numbers are requested again, and
// parkings whose missing number has come since are resumed.
func (m *Machine) began(in Began) {
	m.enter(in.Loaded)
	came, parkings := map[string]bool{}, map[string]*parking{}
	for _, id := range in.Came {
		came[id] = true
	}
	for p := range m.parkings {
		parkings[p.id] = p
	}
	for _, loaded := range in.Parkings {
		switch p := parkings[loaded.ID]; {
		case came[p.id]:
			m.reopen(p)
		case m.isFor(p):
			for _, c := range loaded.Streams {
				if st := m.streams[c.Key]; st.missing > 0 {
					m.openGap(st)
				}
			}
		}
	}
}
