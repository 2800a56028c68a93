package core

import (
	"cmp"
	"slices"
)

// window holds the events of a stream that were submitted and have not ended,
// in order of their numbers. They may end in any order, so an entry whose event
// has ended stays until all before it are done: nil if it is done too, undone
// if it has to come again. Numbers below the stream's next that are not in the
// window are done.
type window struct {
	entries []entry
	head    int // index of the first entry in use
	running int // entries whose event has not ended
}

type entry struct {
	number uint64
	event  *Event // nil: done; undone: ended without being done
}

// undone marks entries whose event has ended without being done, because it
// failed or was recalled for example. The number stays in the window, so that
// it is not taken for done.
var undone = new(Event)

func (w *window) empty() bool { return w.head == len(w.entries) }

func (w *window) push(n uint64, e *Event) {
	if w.head > 0 && len(w.entries) == cap(w.entries) && w.head >= len(w.entries)/2 {
		w.entries = w.entries[:copy(w.entries, w.entries[w.head:])]
		w.head = 0
	}
	w.entries = append(w.entries, entry{n, e})
	w.running++
}

// pop removes the last entry, whose event has not ended.
func (w *window) pop() {
	w.entries = w.entries[:len(w.entries)-1]
	w.running--
	w.trim()
}

// last returns the largest number in the window, or 0 if it is empty.
func (w *window) last() uint64 {
	if w.empty() {
		return 0
	}
	return w.entries[len(w.entries)-1].number
}

// from returns the entries with numbers from n on.
func (w *window) from(n uint64) []entry {
	i, _ := w.index(n)
	return w.entries[i:]
}

func (w *window) index(n uint64) (int, bool) {
	i, found := slices.BinarySearchFunc(w.entries[w.head:], n, func(e entry, n uint64) int {
		return cmp.Compare(e.number, n)
	})
	return w.head + i, found
}

// find returns the event of number n while it has not ended, undone if it has
// ended without being done, and nil if the window does not have the number or
// it is done.
func (w *window) find(n uint64) *Event {
	if i, found := w.index(n); found {
		return w.entries[i].event
	}
	return nil
}

// set replaces the event with number n, which has ended, by nil or undone, and
// removes the done entries at the front.
func (w *window) set(n uint64, e *Event) {
	if i, found := w.index(n); found {
		w.entries[i].event = e
		w.running--
	}
	w.trim()
}

// setDone marks numbers as done whose events had ended without being done, for
// example because they were given up or skipped.
func (w *window) setDone(from, to uint64) {
	for i, _ := w.index(from); i < len(w.entries) && w.entries[i].number <= to; i++ {
		if w.entries[i].event == undone {
			w.entries[i].event = nil
		}
	}
	w.trim()
}

func (w *window) trim() {
	for w.head < len(w.entries) && w.entries[w.head].event == nil {
		w.head++
	}
	if w.empty() {
		w.head = 0
		w.entries = w.entries[:0]
		if cap(w.entries) > keepWindow {
			w.entries = nil
		}
	}
}

// keepWindow is the capacity that an empty window keeps.
const keepWindow = 4

// rewind returns the first number that is not done, if all events in the window
// have ended and there is one; see stream.rewind.
func (w *window) rewind() (first uint64, ok bool) {
	if w.running > 0 || w.empty() {
		return 0, false
	}
	return w.entries[w.head].number, true // trim has removed the done ones at the front
}
