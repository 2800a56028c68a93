package dispatcher

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/interlock-go/interlock/lockkeys"
)

// Dispatcher runs the handlers of messages on a pool of workers, as the
// package documentation says. Make one with [New] and end it with
// [Dispatcher.Shutdown] or [Dispatcher.Close]. All methods may be called from
// any number of goroutines at once.
//
// # What the mutex guards
//
// Everything in the group mu, and nothing else. Functions that need it held
// end in Locked. Under it nothing calls a handler, a key function, a
// completion, an observer or a logger, and nothing waits. The work under it
// is linear in keys × depth of a message for admitting it, and for releasing
// it also in the messages that may start because of that; never in the number
// waiting. What parks a message, resumes one or widens a claim is linear in what
// conflicts with it, directly or behind others. The exceptions are rare: Drop
// considers all that is queued; Snapshot and Parked go through what they list.
//
// # Waking workers
//
// No wake-up is lost: whenever the mutex is let go while something could
// start and a worker is idle, a wake-up is under way (waking is true). Who
// makes work possible calls signalLocked before letting go; the worker woken
// clears waking, takes a message and, if there is more to do, wakes the next
// before it lets go itself. So at most one wake-up is under way at a time.
//
// A submitter makes work possible without the mutex. It puts its message into
// the intake first and looks at idle and waking then; a worker counts itself
// idle, or clears waking, first and looks into the intake then. So either the
// worker sees the message, or the submitter sees that it must take the mutex
// and signal.
type Dispatcher[M any] struct {
	cfg    Config[M] // with defaults
	window int       // of its policy
	intake *intake[M]
	// For reuse.
	arrivals sync.Pool // of *[1]arrival
	tasks    sync.Pool // of *task, beyond mu.spare

	// The context of all handlers, ended near the deadline of a shutdown.
	work       context.Context
	cancelWork context.CancelFunc
	// Ends when submissions are refused; its cause is what they are told.
	accepting   context.Context
	stopAccepts context.CancelCauseFunc
	// Closed when the last worker is gone; when besides every message that a
	// shutdown left has its result; and when the observer is gone.
	workersGone  chan struct{}
	over         chan struct{}
	observerGone chan struct{}

	// Changed under mu; a submitter looks at them without it.
	idle   atomic.Int32 // workers waiting for work
	waking atomic.Bool  // a wake-up is under way
	full   atomic.Bool  // MaxParked is reached

	mu struct {
		sync.Mutex
		work sync.Cond // idle workers wait here

		// Ended tasks for their next use, linked by next; see reuseLocked.
		spare  *task[M]
		spares int
		left   slots // on their way back to the intake

		// The claims of what has or waits for keys; but of what is parked, and
		// behind a parked message, in the other set. See apart.go.
		set     lockkeys.Set[*task[M]]
		closed  lockkeys.Set[*task[M]]
		probe   lockkeys.Place[*task[M]] // for a look into it
		nothing lockkeys.Claim           // is empty

		waiting taskList[M] // in set without their keys: they use the look-ahead window
		ready   readyHeap[M]
		workers []*worker[M]
		backoff map[*task[M]]struct{}
		parked  map[uint64]*task[M]
		leaving int // given up by an operator who is about to end them
		// All in closed but for those: what counts against MaxParked, and what
		// is beyond it, which still has a slot of MaxPending.
		aside, beyond taskList[M]
		unslotted     slots // what counts against MaxParked, wherever it is now
		fullTold      bool  // that MaxParked is reached was logged

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
	d := &Dispatcher[M]{cfg: cfg, window: cfg.Policy.Window(), over: make(chan struct{}), workersGone: make(chan struct{}), observerGone: make(chan struct{})}
	d.work, d.cancelWork = context.WithCancel(context.Background())
	d.accepting, d.stopAccepts = context.WithCancelCause(context.Background())
	d.intake = newIntake[M](d.accepting, cfg.MaxPending, cfg.MaxPendingBytes)
	d.arrivals.New = func() any { return new([1]arrival[M]) }
	d.mu.work.L = &d.mu.Mutex
	d.mu.backoff = make(map[*task[M]]struct{})
	d.mu.parked = make(map[uint64]*task[M])
	d.mu.own = make(map[uint64]struct{})
	d.mu.events.init(&d.mu.Mutex)
	for i := range cfg.Workers {
		w := &worker[M]{d: d, index: i}
		w.host = host{base: d.work, owner: d, worker: i, release: w.releaseKeys}
		d.mu.workers = append(d.mu.workers, w)
		go w.loop()
	}
	if cfg.Observer != nil {
		go d.observe()
	} else {
		close(d.observerGone)
	}
	return d, nil
}

// Err returns nil while messages are accepted; afterwards what submissions
// are told: ErrClosed, or an error that wraps ErrStopped and the cause.
func (d *Dispatcher[M]) Err() error { return context.Cause(d.accepting) }

// canStartLocked tells whether a worker that looks for work might find some.
func (d *Dispatcher[M]) canStartLocked() bool {
	if d.mu.closing || d.mu.stopped != nil {
		return false
	}
	if len(d.mu.ready) > 0 {
		return true
	}
	return d.mu.waiting.len <= d.window && !d.intake.empty()
}

// letGo unlocks the mutex. Whoever has changed under it what could start, or
// what has ended, lets it go by this, which keeps the rule of "Waking workers"
// and lets those go who wait for an end.
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

// stop ends acceptance and starting because of a message that failed.
func (d *Dispatcher[M]) stopLocked(cause error) {
	if d.mu.stopped == nil && !d.mu.closing {
		d.mu.stopped = fmt.Errorf("%w: %w", ErrStopped, cause)
		d.intake.refuse(d.mu.stopped)
		d.stopAccepts(d.mu.stopped)
	}
}
