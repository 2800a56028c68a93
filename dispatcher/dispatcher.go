package dispatcher

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/internal/loglimit"
	"github.com/interlock-go/interlock/lockkeys"
)

// Dispatcher runs the handlers of messages on a pool of workers; see the
// package documentation. Make one with [New] and end it with
// [Dispatcher.Shutdown] or [Dispatcher.Close]. All methods are safe for
// concurrent use.
//
// Admitting a message is linear in its keys × depth; releasing it also in the
// messages that may start as a result; neither in the number of waiting
// messages. Parking, resuming and widening are linear in the messages that
// conflict, directly or behind others. Drop considers the whole queue; Snapshot
// and Parked visit all that they list.
type Dispatcher[M any] struct {
	// # What the mutex guards
	//
	// Everything in the group mu, and nothing else. The names of functions that
	// need it held end in Locked. While it is held, no handler, key function,
	// completion callback, observer or logger is called, and nothing waits.
	//
	// # Waking workers
	//
	// No wake-up is lost: whenever the mutex is unlocked while a message could
	// start and a worker is idle, a wake-up is under way (waking is true). Code
	// that makes a start possible calls signalLocked before it unlocks; the worker
	// that wakes clears waking, takes a message and, if more can start, wakes the
	// next worker before it unlocks. So at most one wake-up is under way at a time.
	//
	// A submitter makes a start possible without the mutex. It first puts its
	// message into the intake and then reads idle and waking; a worker first counts
	// itself idle, or clears waking, and then looks into the intake. So either the
	// worker sees the message, or the submitter sees that it must take the mutex
	// and signal.

	cfg    Config[M] // with defaults
	window int       // of its policy
	made   time.Time
	intake *intake[M]
	// For reuse.
	arrivals sync.Pool // of *[1]arrival
	tasks    sync.Pool // of *task, beyond mu.spare

	undoneLog loglimit.Limit

	// The parent context of all handlers, which ends near the deadline of a
	// shutdown.
	work       context.Context
	cancelWork context.CancelFunc
	// Ends when submissions are refused; its cause is their error.
	accepting   context.Context
	stopAccepts context.CancelCauseFunc
	// workersGone is closed when the last worker has ended; over when, in
	// addition, every message that a shutdown left has its result; observerGone
	// when the observer's goroutine has ended.
	workersGone  chan struct{}
	over         chan struct{}
	observerGone chan struct{}

	// Changed under mu; submitters read them without it.
	idle   atomic.Int32 // workers waiting for work
	waking atomic.Bool  // a wake-up is under way
	full   atomic.Bool  // MaxParked is reached
	_      [64]byte     // so that the mutex is not in their cache line

	mu struct {
		sync.Mutex
		work sync.Cond // idle workers wait here

		// Ended tasks for reuse, linked by next; see reuseLocked.
		spare  *task[M]
		spares int
		left   slots // on their way back to the intake

		// The claims of messages that hold keys or wait for them; those of
		// messages that are parked or behind a parked one are in closed. See
		// apart.go.
		set     lockkeys.Set[*task[M]]
		closed  lockkeys.Set[*task[M]]
		probe   lockkeys.Place[*task[M]] // for closesLocked
		nothing lockkeys.Claim           // always empty

		waiting taskList[M] // in set, not granted: they use the look-ahead window
		ready   readyHeap[M]
		workers []*worker[M]
		kept    map[*task[M]]struct{} // see keep.go
		// Messages that were held and are finished, for the next free worker;
		// and the number of held messages, these included.
		finished taskList[M]
		held     int
		parked   map[uint64]*task[M]
		leaving  int // given up by an operator and not ended yet
		// All messages in closed except those leaving: aside count against
		// MaxParked; beyond exceed it and still have a slot of MaxPending.
		aside, beyond taskList[M]
		unslotted     slots // all that counts against MaxParked, resumed messages included
		fullTold      bool  // it was logged that MaxParked is reached

		closing bool  // Shutdown was called: nothing starts any more
		stopped error // a message failed under the policy Stop: likewise
		end     end[M]

		own      map[uint64]struct{} // goroutines that call handlers and callbacks
		stats    Stats
		drainers []chan struct{}
		events   eventQueue[M]

		woken []*lockkeys.Place[*task[M]] // scratch
	}
}

// New makes a dispatcher and starts its workers. The error wraps [ErrConfig].
func New[M any](cfg Config[M]) (*Dispatcher[M], error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	d := &Dispatcher[M]{cfg: cfg, made: time.Now(), undoneLog: loglimit.Limit{Lines: 10, Every: time.Minute}, window: cfg.Policy.Window(), over: make(chan struct{}), workersGone: make(chan struct{}), observerGone: make(chan struct{})}
	d.work, d.cancelWork = context.WithCancel(context.Background())
	d.accepting, d.stopAccepts = context.WithCancelCause(context.Background())
	d.intake = newIntake[M](d.accepting, cfg.MaxPending, cfg.MaxPendingBytes)
	d.arrivals.New = func() any { return new([1]arrival[M]) }
	d.mu.work.L = &d.mu.Mutex
	d.mu.kept = make(map[*task[M]]struct{})
	d.mu.parked = make(map[uint64]*task[M])
	d.mu.own = make(map[uint64]struct{})
	d.mu.events.init(&d.mu.Mutex)
	for i := range cfg.Workers {
		w := &worker[M]{d: d, index: i}
		w.host = host{base: d.work, owner: d, worker: i, attempts: w, claim: w, checked: cfg.Strict || cfg.Touched != nil}
		d.mu.workers = append(d.mu.workers, w)
		go contain.Persist(w.loop)
	}
	if cfg.Observer != nil {
		go contain.Persist(d.observe)
	} else {
		close(d.observerGone)
	}
	return d, nil
}

// Err returns nil while messages are accepted, and afterwards the error of
// submissions: ErrClosed, or one that wraps ErrStopped and the cause.
func (d *Dispatcher[M]) Err() error { return context.Cause(d.accepting) }

// canStartLocked reports whether takeLocked might find a message.
func (d *Dispatcher[M]) canStartLocked() bool {
	if d.mu.finished.len > 0 {
		return true
	}
	if d.mu.closing || d.mu.stopped != nil {
		return false
	}
	if len(d.mu.ready) > 0 {
		return true
	}
	return d.mu.waiting.len <= d.window && !d.intake.empty()
}

// letGo unlocks the mutex. It must be used after any change to what can start
// or has ended: it keeps the rule of "Waking workers", and releases those that
// wait in Drain.
func (d *Dispatcher[M]) letGo() {
	d.signalLocked()
	d.quietLocked()
	d.mu.Unlock()
}

// signalLocked keeps the rule of "Waking workers".
func (d *Dispatcher[M]) signalLocked() {
	if d.idle.Load() > 0 && !d.waking.Load() && d.canStartLocked() {
		d.waking.Store(true)
		d.mu.work.Signal()
	}
}

// stopLocked ends acceptance and starts because of a message that failed.
func (d *Dispatcher[M]) stopLocked(cause error) {
	if d.mu.stopped == nil && !d.mu.closing {
		d.mu.stopped = fmt.Errorf("%w: %w", ErrStopped, cause)
		d.intake.refuse(d.mu.stopped)
		d.stopAccepts(d.mu.stopped)
	}
}
