package ordering

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"

	"github.com/interlock-go/interlock/lockkeys"
)

// stream is what is in memory of a stream: the queue Q_k and the number
// expected_seq[k] of the paper.
//
// Invariant: every number below next is done, or in the window, where events
// are that were submitted and have not ended. Numbers from next on are done if
// they are in ahead, wait for their turn if they are in early, and have not
// come otherwise; early events are not in ahead.
//
// Events with numbers from heldFrom on are not to run: the store holds them.
// With a parking, until that is resumed; without, until the keeper has fed
// them back from the store.
type stream struct {
	key    lockkeys.Key
	fence  int64
	next   uint64
	window window
	ahead  Spans
	early  map[uint64]*task
	order  numbers // those of early, and some that are not there any more
	ended  uint64  // the last number there is, once known; else 0

	heldFrom atomic.Uint64 // atomic, for workers to look at
	parking  *parking
	missing  uint64         // the number that it is parked for, since it has not come; else 0
	holding  map[uint64]int // events on their way into the store, by number
	fed      int            // events from the store that have not ended
	feeding  bool           // the keeper is to feed it
	pins     int            // by those who work on it for an operator

	gap       *gap
	replaying bool // a replay for it is under way

	lost  atomic.Bool // it has another holder; atomic, for workers to look at
	gone  bool        // no longer in the sequencer's map
	idle  bool        // in the list of idle streams, between
	older *stream
	newer *stream
	epoch uint64 // of when it became idle
}

const notHeld = math.MaxUint64

func newStream(key lockkeys.Key, state StreamState) *stream {
	st := &stream{key: key, fence: state.Fence, ended: state.Ended}
	st.next, st.ahead = slices.Clone(state.Done).Absorb(state.Last + 1)
	st.heldFrom.Store(notHeld)
	if state.HeldAt > 0 {
		st.heldFrom.Store(state.HeldAt)
	}
	return st
}

// isDone tells whether a number is done; running is the event that has it, if
// it was submitted and has not ended.
func (st *stream) isDone(n uint64) (done bool, running *task) {
	if n >= st.next {
		return st.ahead.Contains(n), nil
	}
	running = st.window.find(n)
	return running == nil, running
}

// onItsWay tells whether a number is done; if it is not, t is the event in
// memory that has it, or nil.
func (st *stream) onItsWay(n uint64) (done bool, t *task) {
	done, t = st.isDone(n)
	if !done && (t == nil || t == undone) {
		t = st.early[n]
	}
	return done, t
}

func (st *stream) isHeld(n uint64) bool { return n >= st.heldFrom.Load() }

// quiet tells whether nothing of the stream is on its way, so that all there is
// to know of it is in the store, or its parking.
func (st *stream) quiet() bool {
	return st.window.empty() && len(st.early) == 0 && st.gap == nil && len(st.holding) == 0 && st.fed == 0 && !st.feeding && st.pins == 0 && !st.replaying
}

// feeds tells whether held events may be fed: not before those in the window
// that are held too are out of it, since they come first.
func (st *stream) feeds() bool {
	return !st.gone && st.parking == nil && st.fed == 0 && len(st.holding) == 0 &&
		st.heldFrom.Load() != notHeld && !st.isHeld(st.window.last())
}

// advance takes the event with the next number into the window.
func (st *stream) advance(t *task) {
	st.window.push(st.next, t)
	st.next, st.ahead = st.ahead.Absorb(st.next + 1)
}

// retreat undoes the last advance, which was for number n.
func (st *stream) retreat(n uint64) {
	st.window.pop()
	if st.next > n+1 {
		st.ahead = st.ahead.Add(Span{n + 1, st.next - 1})
	}
	st.next = n
}

// end takes out of the window what has ended. A number that is not done then
// will have to come again.
func (st *stream) end(n uint64, done bool) {
	if done {
		st.window.set(n, nil)
	} else {
		st.window.set(n, undone)
	}
	if first, ok := st.window.rewind(); ok {
		// What has ended since, between those that are not done, is done.
		from := first
		for _, e := range st.window.entries[st.window.head:] {
			if e.task == undone && e.number > from {
				st.ahead = st.ahead.Add(Span{from, e.number - 1})
			}
			if e.task == undone {
				from = e.number + 1
			}
		}
		if from < st.next {
			st.ahead = st.ahead.Add(Span{from, st.next - 1})
		}
		st.next = first
		st.window = window{}
	}
}

// setDone marks numbers as done that are not on their way.
func (st *stream) setDone(from, to uint64) {
	st.window.setDone(from, to)
	if from = max(from, st.next); from <= to {
		st.next, st.ahead = st.ahead.Add(Span{from, to}).Absorb(st.next)
	}
}

// window is the events of a stream that were submitted and have not ended, in
// order of their numbers. Numbers that are not in it have ended.
type window struct {
	entries []entry
	head    int // entries before it are free
	running int // entries with a task
}

type entry struct {
	number uint64
	task   *task // nil: done; undone: ended without being done
}

var undone = new(task)

func (w *window) empty() bool { return w.head == len(w.entries) }

func (w *window) push(n uint64, t *task) {
	if w.head > 0 && len(w.entries) == cap(w.entries) && w.head >= len(w.entries)/2 {
		w.entries = w.entries[:copy(w.entries, w.entries[w.head:])]
		w.head = 0
	}
	w.entries = append(w.entries, entry{n, t})
	w.running++
}

// pop takes out the last one, which runs.
func (w *window) pop() {
	w.entries = w.entries[:len(w.entries)-1]
	w.running--
}

// last returns the largest number in the window, 0 for none.
func (w *window) last() uint64 {
	if w.empty() {
		return 0
	}
	return w.entries[len(w.entries)-1].number
}

func (w *window) index(n uint64) (int, bool) {
	i, found := slices.BinarySearchFunc(w.entries[w.head:], n, func(e entry, n uint64) int {
		return cmp.Compare(e.number, n)
	})
	return w.head + i, found
}

// find returns the task with number n, nil if it is done.
func (w *window) find(n uint64) *task {
	if i, found := w.index(n); found {
		return w.entries[i].task
	}
	return nil
}

// set replaces the task with number n, which has ended, by nil or undone, and
// frees what is done at the front.
func (w *window) set(n uint64, t *task) {
	if i, found := w.index(n); found {
		w.entries[i].task = t
		w.running--
	}
	w.trim()
}

// setDone notes of numbers that ended without being done that they are now.
func (w *window) setDone(from, to uint64) {
	for i, _ := w.index(from); i < len(w.entries) && w.entries[i].number <= to; i++ {
		if w.entries[i].task == undone {
			w.entries[i].task = nil
		}
	}
	w.trim()
}

func (w *window) trim() {
	for w.head < len(w.entries) && w.entries[w.head].task == nil {
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

// keepWindow is how many entries an idle stream keeps memory for.
const keepWindow = 4

// rewind returns the first number that is not done, once everything in the
// window has ended and there is such a number.
func (w *window) rewind() (first uint64, ok bool) {
	if w.running > 0 || w.empty() {
		return 0, false
	}
	return w.entries[w.head].number, true // those that are done at the front were freed
}
