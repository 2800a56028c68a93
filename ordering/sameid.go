package ordering

import (
	"hash/maphash"
)

// recentIDs remembers the numbers of the events that came last with an ID of
// their own, to tell when two events have one ID: that is no reason not to run
// both, since an event is known by its numbers, but whoever looks for one by its
// ID should know. It has a place for each hash of an ID, so that it costs the same
// however many there were; an ID may be forgotten early, and two IDs with one hash
// of 48 bits be taken for one.
type recentIDs struct {
	seed  maphash.Seed
	table []recentID // nil before the first
}

// recentID is 32 bits of the hash of an ID, beside those that give its place, 31
// bits of one of the numbers, and whether it was told that two events have the ID:
// little enough for all of the table to stay in a processor's cache.
type recentID struct {
	id, numbers uint32
}

const told = 1

// recentPlaces makes a table of 64 KiB, which stays in a core's cache.
const recentPlaces = 1 << 13

// see records an event that is about to run, or to wait. again reports whether
// one with the same ID and other numbers came before, first whether this is the
// first time for that ID.
func (r *recentIDs) see(e *Event) (again, first bool) {
	if e.ID == "" {
		return false, false
	}
	if r.table == nil {
		r.seed, r.table = maphash.MakeSeed(), make([]recentID, recentPlaces)
	}
	id := maphash.String(r.seed, e.ID)
	numbers := uint64(0)
	for _, p := range e.Positions { // in any order
		numbers += maphash.Comparable(r.seed, p.place())
	}
	now := recentID{uint32(id >> 32), uint32(numbers>>32) &^ told}
	before := &r.table[id%recentPlaces]
	if before.id == now.id {
		again = before.numbers&^told != now.numbers
		first = again && before.numbers&told == 0
		if again {
			now.numbers |= told
		} else {
			now.numbers = before.numbers
		}
	}
	*before = now
	return again, first
}
