package dispatcher

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// State is where an accepted message stands.
type State uint8

const (
	// StateQueued: not considered yet; its claim blocks nothing.
	StateQueued State = iota
	// StateWaiting: considered, and behind a conflicting message. Later
	// conflicting messages wait for it.
	StateWaiting
	// StateReady: it holds its keys and waits for a worker.
	StateReady
	// StateRunning: a worker runs its handler.
	StateRunning
	// StateBackoff: it holds its keys and waits for the next attempt.
	StateBackoff
	// StateHeld: its handler has returned, and it holds its keys until it is
	// finished; see [Hold].
	StateHeld
	// StateParked: it failed and holds its keys until an operator decides.
	StateParked
)

var stateNames = [...]string{"queued", "waiting", "ready", "running", "backoff", "held", "parked"}

// String returns the name in lower case.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// task is a message that a worker has considered. It is guarded by
// Dispatcher.mu, except for the fields that its worker reads while it runs.
//
// These are its states. In each it is in exactly one of the places named, all
// of them in Dispatcher.mu:
//
//	(queued  the intake         ─▶ waiting, running: a worker considers it)
//	waiting  waiting, or else   ─▶ ready (the last blocker is gone)
//	         aside or beyond
//	ready    ready              ─▶ running
//	running  its worker's batch ─▶ ended, backoff, held, parked, waiting or ready (it widened)
//	backoff  kept               ─▶ ready, waiting
//	held     kept, and finished ─▶ running (its worker only judges the result)
//	         when it is that
//	parked   parked, and aside  ─▶ ready, waiting, ended (by an operator)
//	         or beyond
//
// In all of them its claim has a place in one of the two sets, see apart.go,
// which is granted in all but waiting. The tasks of a batch behind the first
// are running while their places still wait for the one before. A task that an
// operator gives up counts as parked and is in none of the lists.
type task[M any] struct {
	id    uint64 // order of arrival
	msg   M
	done  func(m M, err error)
	size  int64
	claim lockkeys.Claim
	place lockkeys.Place[*task[M]]

	values    context.Context // as in arrival
	extra     *extra[M]       // usually nil
	err       error           // of the last attempt
	attempts  int32           // begun so far; its worker reads it without the mutex
	state     State
	holdsSlot bool          // it counts against MaxPending, or else against MaxParked
	apart     bool          // its place is in Dispatcher.mu.closed, not in mu.set
	alone     bool          // it is not to be part of a chain again
	batch     *worker[M]    // that has it in a batch which may have others
	blocked   time.Duration // from d.made until it had to wait, while it is waiting
	waited    time.Duration // with Config.Measure, in waits that are over

	prev, next *task[M] // in a taskList
}

// extra holds what only some messages need.
type extra[M any] struct {
	ticket *Ticket
	keyErr error              // the key function failed
	gone   []lockkeys.Request // released by Release since the attempt began
	spent  int                // attempts before the last Resume
	since  time.Time          // when it was kept, parked or, with an observer, entered its state

	timer *time.Timer // while it is kept
	due   time.Time   // when the timer is
	hold  *hold[M]    // of the attempt under way

	timing *timing       // if it is part of the sample of Config.Measure
	held   time.Duration // with Config.Measure, so far

	notHeld error // of Holds in the attempt under way, under Config.Strict
}

// more returns the extra of t, and makes it if necessary.
func (t *task[M]) more() *extra[M] {
	if t.extra == nil {
		t.extra = new(extra[M])
	}
	return t.extra
}

// keyErr returns the error of the key function, or nil.
func (t *task[M]) keyErr() error {
	if t.extra == nil {
		return nil
	}
	return t.extra.keyErr
}

// hold returns the hold of the attempt under way, or nil.
func (t *task[M]) hold() *hold[M] {
	if t.extra == nil {
		return nil
	}
	return t.extra.hold
}

// takeNotHeld returns, and clears, the recorded failure of Holds in the attempt
// that has ended.
func (t *task[M]) takeNotHeld() (err error) {
	if t.extra != nil {
		err, t.extra.notHeld = t.extra.notHeld, nil
	}
	return err
}

// gone returns the requests released since the attempt began.
func (t *task[M]) gone() []lockkeys.Request {
	if t.extra == nil {
		return nil
	}
	return t.extra.gone
}

// tries returns the attempts begun since the message was accepted or resumed.
func (t *task[M]) tries() int {
	if t.extra == nil {
		return int(t.attempts)
	}
	return int(t.attempts) - t.extra.spent
}

// reset clears a task that has ended for reuse, and keeps its memory.
func (t *task[M]) reset() {
	var none M
	t.msg, t.done, t.err, t.values, t.extra = none, nil, nil, nil, nil
	t.size, t.attempts, t.waited, t.apart, t.alone = 0, 0, 0, false, false
	t.claim.Reset()
}

// taskList is an intrusive linked list of tasks, in no particular order.
type taskList[M any] struct {
	first, last *task[M]
	len         int
}

func (l *taskList[M]) push(t *task[M]) {
	t.prev, t.next = l.last, nil
	if l.last == nil {
		l.first = t
	} else {
		l.last.next = t
	}
	l.last = t
	l.len++
}

// all returns the tasks of the list.
func (l *taskList[M]) all() (tasks []*task[M]) {
	for t := l.first; t != nil; t = t.next {
		tasks = append(tasks, t)
	}
	return tasks
}

func byArrival[M any](a, b *task[M]) int { return cmp.Compare(a.id, b.id) }

func (l *taskList[M]) remove(t *task[M]) {
	if t.prev == nil {
		l.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	l.len--
}

// readyHeap holds the tasks that can start, the earliest arrival on top; see
// container/heap.
type readyHeap[M any] []*task[M]

func (h readyHeap[M]) Len() int           { return len(h) }
func (h readyHeap[M]) Less(i, j int) bool { return h[i].id < h[j].id }
func (h readyHeap[M]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *readyHeap[M]) Push(t any)        { *h = append(*h, t.(*task[M])) }
func (h *readyHeap[M]) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return t
}
