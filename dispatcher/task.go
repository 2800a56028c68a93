package dispatcher

import (
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/interlock-go/interlock/lockkeys"
)

// State is where an accepted message stands.
type State uint8

const (
	// StateQueued: not considered yet; what it claims binds nobody.
	StateQueued State = iota
	// StateWaiting: considered, and behind a conflicting message. Its claim
	// keeps its place: later conflicting messages wait for it.
	StateWaiting
	// StateReady: it has its keys and waits for a worker.
	StateReady
	// StateRunning: a worker runs its handler.
	StateRunning
	// StateBackoff: it has its keys and waits for the next attempt.
	StateBackoff
	// StateParked: it failed and has its keys until an operator decides.
	StateParked
)

var stateNames = [...]string{"queued", "waiting", "ready", "running", "backoff", "parked"}

// String returns the name in lower case.
func (s State) String() string { return stateNames[s] }

// task is an accepted message.
//
// Its life is this, and in every state it is in exactly one of the places
// named, all of them in Dispatcher.mu:
//
//	queued   queue              ─▶ waiting, running (a worker considers it)
//	waiting  waiting            ─▶ ready (the last blocker is gone)
//	ready    ready              ─▶ running
//	running  its worker's batch ─▶ ended, backoff, parked, waiting or ready (it widened)
//	backoff  backoff            ─▶ ready, waiting
//	parked   parked             ─▶ ready, waiting, ended (by an operator)
//
// Its claim has a place in the set in all of them but queued, and that place
// is granted in all but waiting. Tasks of a batch other than the first are
// running while their places still wait for the one before.
type task[M any] struct {
	// Set by the submitter; not changed until the task ends.
	msg    M
	size   int64
	keyErr error // the key function failed
	done   func(m M, err error)
	ticket *Ticket

	// Guarded by Dispatcher.mu, but for what is said.
	id       uint64 // order of arrival
	state    State
	claim    lockkeys.Claim // set by the submitter before the task is queued
	place    lockkeys.Place[*task[M]]
	gone     []lockkeys.Request // given back by Release since the attempt began
	attempts int                // begun so far; its worker reads it without the mutex
	spent    int                // of the attempts, those before the last Resume
	err      error              // of the last attempt
	since    time.Time          // when it was parked, or with an observer came into its state
	retry    *retry

	// While waiting: whether it is, directly or not, behind a parked message,
	// in which case it has a place in Dispatcher.mu.closed. Parked messages
	// have one too.
	stalled     bool
	closedPlace lockkeys.Place[*task[M]]
	holdsSlot   bool // it counts against MaxPending

	prev, next *task[M] // in queue or waiting
}

// retry is what a task needs from its first failed attempt on.
type retry struct {
	delays *backoff.ExponentialBackOff
	timer  *time.Timer
}

// reset clears a task that has ended for its next use, keeping memory.
func (t *task[M]) reset() {
	claim, place, closed := t.claim, t.place, t.closedPlace
	claim.Reset()
	*t = task[M]{claim: claim, place: place, closedPlace: closed}
}

// taskList is a list of tasks linked through them. A task is in one at most.
type taskList[M any] struct {
	first, last *task[M]
	len         int
}

func (l *taskList[M]) push(t *task[M]) { l.insertAfter(t, l.last) }

// insertAfter puts t behind at, or first if at is nil.
func (l *taskList[M]) insertAfter(t, at *task[M]) {
	t.prev, t.next = at, l.first
	if at == nil {
		l.first = t
	} else {
		t.next = at.next
		at.next = t
	}
	if t.next == nil {
		l.last = t
	} else {
		t.next.prev = t
	}
	l.len++
}

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

func (l *taskList[M]) pop() *task[M] {
	t := l.first
	if t != nil {
		l.remove(t)
	}
	return t
}

// readyHeap has the tasks that can start, the earliest arrival on top; see
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
