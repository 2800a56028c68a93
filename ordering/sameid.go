package ordering

import (
	"hash/maphash"
	"time"
)

// recentIDs remembers the numbers of the events that came last with an ID of
// their own, to tell when two events have one ID: that is no reason not to run
// both, since an event is known by its numbers, but whoever looks for one by its
// ID should know. It has a place for each hash of an ID, so that it costs the same
// however many there were; an ID may be forgotten early, and two IDs with one hash
// of 64 bits be taken for one.
type recentIDs struct {
	seed  maphash.Seed
	table []recentID // nil before the first
}

type recentID struct {
	id, numbers uint64
	told        bool
}

const recentPlaces = 1 << 16

// see takes note of an event that is about to run, or to wait. again says that
// one with the same ID and other numbers came before, first that this is the
// first time that it is so.
func (r *recentIDs) see(e *Event) (again, first bool) {
	if e.ID == "" {
		return false, false
	}
	if r.table == nil {
		r.seed, r.table = maphash.MakeSeed(), make([]recentID, recentPlaces)
	}
	now := recentID{id: maphash.String(r.seed, e.ID)}
	for _, p := range e.Positions { // in any order
		now.numbers += maphash.Comparable(r.seed, p.place())
	}
	before := &r.table[now.id%recentPlaces]
	again = before.id == now.id && before.numbers != now.numbers
	first = again && !before.told
	now.told = before.id == now.id && (before.told || again)
	*before = now
	return again, first
}

// seeIDLocked tells of an ID that two events have.
func (s *Sequencer) seeIDLocked(e *Event, a *after) {
	again, first := s.mu.recent.see(e)
	if again {
		s.counts.sameID.Add(1)
	}
	if first {
		a.notices = append(a.notices, Notice{Kind: SameID, Time: time.Now(), Stream: e.Positions[0].Stream, Event: e, Err: ErrSameID})
	}
}
