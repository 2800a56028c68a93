package core

import (
	"container/heap"
	"time"
)

// idleList holds the streams with nothing in flight, in the order in which they
// became idle.
type idleList struct {
	ends stream // ends.newer is the least recent one, ends.older the most recent
	len  int
}

func (l *idleList) init() { l.ends.older, l.ends.newer = &l.ends, &l.ends }

func (l *idleList) push(st *stream, now time.Time) {
	st.idle, st.since = true, now
	st.older, st.newer = l.ends.older, &l.ends
	st.older.newer, l.ends.older = st, st
	l.len++
}

func (l *idleList) remove(st *stream) {
	if !st.idle {
		return
	}
	st.idle = false
	st.older.newer, st.newer.older = st.newer, st.older
	st.older, st.newer = nil, nil
	l.len--
}

// rest adds a stream to the idle ones if it is open and nothing of it is in
// flight. A stream that has ended leaves memory.
func (m *Machine) rest(st *stream) { m.restSince(st, time.Time{}) }

// restSince is rest since a time, or if that is zero, since now.
func (m *Machine) restSince(st *stream, since time.Time) {
	if st.state != open || st.idle || !st.isQuiet() {
		return
	}
	if st.isBehindEnd(st.next) {
		m.leave(st)
		return
	}
	if since.IsZero() {
		since = m.now()
	}
	m.becomesIdle(st, since)
}

// sweep stands for the search for streams that have been idle for long. While
// there are idle streams, there is a timer for it.
type sweep struct{}

// becomesIdle takes a stream to the list of idle ones.
func (m *Machine) becomesIdle(st *stream, since time.Time) {
	m.idle.push(st, since)
	if !m.sweeping {
		m.sweeping = true
		m.timers.set(m.now().Add(m.cfg.IdleTTL), sweep{})
	}
}

// sweep lets streams go that have been idle for long.
func (m *Machine) sweep() {
	m.sweeping = false
	for m.idle.len > 0 {
		oldest := m.idle.ends.newer
		due := oldest.since.Add(m.cfg.IdleTTL)
		if due.After(m.now()) {
			m.sweeping = true
			m.timers.set(due, sweep{})
			return
		}
		m.leave(oldest)
	}
}

// evict removes the least recently used idle streams beyond MaxActive from
// memory.
func (m *Machine) evict() {
	for m.idle.len > m.cfg.MaxActive {
		m.leave(m.idle.ends.newer)
	}
}

// leave removes a stream from memory.
func (m *Machine) leave(st *stream) {
	m.idle.remove(st)
	st.to(gone)
	delete(m.streams, st.key)
}

// evictParking removes a parking from memory, with its streams, if it has not
// changed for IdleTTL and nothing of it is in flight. Otherwise it sets the
// timer again.
func (m *Machine) evictParking(p *parking) {
	if p.state == finished {
		return
	}
	due := p.changed.Add(m.cfg.IdleTTL)
	if !due.After(m.now()) {
		due = m.now().Add(m.cfg.IdleTTL)
		if m.isQuiet(p) {
			for _, st := range m.finish(p) {
				m.leave(st)
			}
			return
		}
	}
	m.timers.set(due, p)
}

func (m *Machine) isQuiet(p *parking) bool {
	if p.state != written || m.writes.isFor(p) {
		return false
	}
	for key := range p.streams {
		if st := m.streams[key]; st != nil && !st.isQuiet() {
			return false
		}
	}
	return true
}

// timers is a heap of timers, the earliest on top. They are never cancelled:
// the subject may be over when its timer expires.
type timers []timer

type timer struct {
	at   time.Time
	what any // *gap, *parking, search or sweep
}

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	(*t)[last] = timer{}
	*t = (*t)[:last]
	return x
}

func (t *timers) set(at time.Time, what any) { heap.Push(t, timer{at, what}) }

// Next returns when the machine needs the next [Ticked], or the zero time for
// never.
func (m *Machine) Next() time.Time {
	if len(m.timers) == 0 {
		return time.Time{}
	}
	return m.timers[0].at
}

// tick handles everything that is due.
func (m *Machine) tick() {
	for len(m.timers) > 0 && !m.timers[0].at.After(m.now()) {
		switch t := heap.Pop(&m.timers).(timer).what.(type) {
		case *gap:
			m.due(t)
		case *parking:
			m.evictParking(t)
		case search:
			m.searchAll()
		case sweep:
			m.sweep()
		}
	}
}
