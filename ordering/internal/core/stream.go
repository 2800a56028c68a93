package core

import (
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// stream is the state of a stream in memory: the queue Q_k and the number
// expected_seq[k] of the paper.
//
// Invariant: every number below next is done, or in the window, which has the
// events that were submitted and have not ended. A number from next on is done
// if it is in ahead, waits for its turn if it is in early, and has not come
// otherwise; no number is in both. A number whose event was submitted and ended
// without being done may come again, and is in early then, until the stream
// goes back to it (see rewind).
//
// Events with numbers from heldFrom on must not run: the store holds them, or
// will.
type stream struct {
	key    lockkeys.Key
	state  streamState
	fence  int64
	next   uint64
	window window
	ahead  Spans
	early  map[uint64]*Event
	order  numbers // those of early, and some that have left it
	ended  uint64  // the last number of its epoch, once known; else 0

	heldFrom uint64         // notHeld if it is open
	parking  *parking       // if it is parked, else nil
	missing  uint64         // the missing number that it is parked for; else 0
	holding  map[uint64]int // events being written to the store, by number
	skipping []Span         // numbers of the Skip under way
	fed      int            // fed events that are not over
	feed     feedState
	readFrom uint64   // where the next page begins: at heldFrom, or at the last number that was fed
	placed   [][]Slot // the slots of events with number readFrom that were fed
	page     []*Event // held events that are about to arrive
	pins     int      // by checks and decisions, which keep it in memory

	gap       *gap
	replaying bool // a replay of it is under way, or numbers that do not exist by its answer are being skipped
	turning   bool // a decision is under way to begin a later epoch, unless an event of this one comes first

	touched bool // it is in the machine's list of touched streams
	idle    bool // it is in the list of idle streams, between older and newer
	older   *stream
	newer   *stream
	since   time.Time // when it became idle
}

const notHeld = math.MaxUint64

// streamState says whether a stream's events run.
//
//	from     to       when
//	(none)   open     it was loaded, and nothing of it is held
//	(none)   feeding  it was loaded, and events of it are held
//	(none)   parked   it was loaded, and its parking
//	open     parked   an event failed, contradicts another, or does not come
//	open     feeding  an event that is being fed on another stream is held again
//	feeding  parked   likewise as from open
//	feeding  open     nothing of it is held any more
//	parked   feeding  its parking has been resumed
//	open     gone     it has ended, or was idle for long
//	parked   gone     nothing of its parking has changed for long
type streamState uint8

const (
	// open: its events run. Invariant: heldFrom is notHeld, parking is nil.
	open streamState = iota
	// feeding: events from heldFrom on are read back from the store, in order,
	// and arriving ones are held behind them. Invariant: parking is nil.
	feeding
	// parked: events from heldFrom on are held until the parking is resumed.
	// Invariant: parking is the one that has the stream.
	parked
	// gone: it has left memory. Invariant: it is not in the machine's map.
	gone
)

var streamMoves = moves{
	of:    "a stream",
	names: []string{"open", "feeding", "parked", "gone"},
	next: []uint16{
		open:    1<<parked | 1<<feeding | 1<<gone,
		feeding: 1<<parked | 1<<open,
		parked:  1<<feeding | 1<<gone,
		gone:    0,
	},
}

func (s streamState) String() string { return streamMoves.names[s] }

func (st *stream) to(next streamState) {
	if st.state != next {
		move(&streamMoves, &st.state, next)
	}
}

func newStream(state StreamState) *stream {
	st := &stream{key: state.Key, fence: state.Fence, ended: state.Ended, heldFrom: notHeld}
	st.next, st.ahead = slices.Clone(state.Done).Absorb(state.Last + 1)
	if state.HeldAt > 0 {
		st.closeAt(state.HeldAt)
	}
	return st
}

// isDone reports whether a number is done. running is the event that has it, if
// it was submitted and has not ended, or undone if it has ended without being
// done.
func (st *stream) isDone(n uint64) (done bool, running *Event) {
	if n >= st.next {
		return st.ahead.Contains(n), nil
	}
	running = st.window.find(n)
	return running == nil, running
}

// find reports whether a number is done; if not, e is the event in memory that
// has it, submitted or waiting, or nil. It is never undone.
func (st *stream) find(n uint64) (done bool, e *Event) {
	done, e = st.isDone(n)
	if !done && (e == nil || e == undone) {
		e = st.early[n]
	}
	return done, e
}

// closeAt closes the stream from a number on. Feeding, if any, starts there
// again.
func (st *stream) closeAt(n uint64) {
	st.heldFrom, st.readFrom, st.placed = n, n, nil
	st.readAgain()
}

func (st *stream) isHeld(n uint64) bool { return n >= st.heldFrom }

func (st *stream) isSkipping(n uint64) bool {
	return slices.ContainsFunc(st.skipping, func(r Span) bool { return r.From <= n && n <= r.To })
}

// isQuiet reports whether nothing of the stream is in flight, so that its whole
// state is in the store, or in its parking, and it can leave memory.
func (st *stream) isQuiet() bool {
	return st.window.empty() && len(st.early) == 0 && st.gap == nil && len(st.holding) == 0 &&
		st.fed == 0 && st.feed == feedNot && st.pins == 0 && !st.replaying
}

// advance adds the event with the next number to the window, and moves next
// past it and the done numbers behind it.
func (st *stream) advance(e *Event) {
	st.window.push(st.next, e)
	st.next, st.ahead = st.ahead.Absorb(st.next + 1)
}

// retreat undoes the last advance, which was for number n.
func (st *stream) retreat(n uint64) {
	st.window.pop()
	if st.next > n+1 {
		st.ahead = st.ahead.Add(Span{n + 1, st.next - 1})
	}
	st.next = n
	st.rewind()
}

// end removes a number from the window whose event has ended; if it is not
// done, the stream will go back to it.
func (st *stream) end(n uint64, done bool) {
	if done {
		st.window.set(n, nil)
	} else {
		st.window.set(n, undone)
	}
	st.rewind()
}

// rewind sets next back to the first number that ended without being done, so
// that its event can run when it comes again. That waits until the whole window
// has ended: going back earlier would put numbers from next on into flight,
// against the invariant.
func (st *stream) rewind() {
	first, ok := st.window.rewind()
	if !ok {
		return
	}
	// The numbers between those that are not done are done: move them to ahead.
	from := first
	for _, e := range st.window.entries[st.window.head:] {
		if e.event != undone {
			continue
		}
		if e.number > from {
			st.ahead = st.ahead.Add(Span{from, e.number - 1})
		}
		from = e.number + 1
	}
	if from < st.next {
		st.ahead = st.ahead.Add(Span{from, st.next - 1})
	}
	st.next = first
	st.window = window{}
}

// setDone marks numbers as done that are not in flight.
func (st *stream) setDone(from, to uint64) {
	st.window.setDone(from, to)
	if from = max(from, st.next); from <= to {
		st.next, st.ahead = st.ahead.Add(Span{from, to}).Absorb(st.next)
	}
}

// known returns the number up to which all are done.
func (st *stream) known() uint64 {
	if st.window.empty() {
		return st.next - 1
	}
	return st.window.entries[st.window.head].number - 1
}

// addEarly adds an event that waits for its turn.
func (st *stream) addEarly(n uint64, e *Event) {
	if st.early == nil {
		st.early = map[uint64]*Event{}
	}
	st.early[n] = e
	heap.Push(&st.order, n)
}

func (st *stream) removeEarly(n uint64) {
	delete(st.early, n)
	if len(st.early) == 0 {
		st.early, st.order = nil, nil
	}
}

// firstEarly returns the early event with the smallest number, and that number,
// or nil if there is none. Numbers that have left early are dropped from order
// only here.
func (st *stream) firstEarly() (*Event, uint64) {
	for len(st.order) > 0 {
		n := st.order[0]
		if e := st.early[n]; e != nil {
			return e, n
		}
		heap.Pop(&st.order)
	}
	return nil, 0
}

// numbers is a heap of numbers, the smallest on top; see container/heap.
type numbers []uint64

func (h numbers) Len() int           { return len(h) }
func (h numbers) Less(i, j int) bool { return h[i] < h[j] }
func (h numbers) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *numbers) Push(n any)        { *h = append(*h, n.(uint64)) }
func (h *numbers) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	*h = (*h)[:last]
	return n
}
