package dispatcher

import (
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/lockkeys"
)

// maxEvents is how many events may be outstanding before workers wait for the
// observer.
const maxEvents = 4096

// eventQueue holds the events that the observer has not received yet. It is
// part of Dispatcher.mu.
type eventQueue[M any] struct {
	pending []Event[M]
	closed  bool
	some    sync.Cond // the observer waits here for events
	fewer   sync.Cond // workers wait here for the observer

	// Not guarded; the observing goroutine's own.
	taken []Event[M]
	told  int // of taken
}

func (q *eventQueue[M]) init(mu *sync.Mutex) { q.some.L, q.fewer.L = mu, mu }

func (q *eventQueue[M]) full() bool { return len(q.pending) >= maxEvents }

// waitLocked waits until the observer has caught up.
func (q *eventQueue[M]) waitLocked() {
	for q.full() {
		q.fewer.Wait()
	}
}

// closeLocked marks the queue as complete: no event follows.
func (q *eventQueue[M]) closeLocked() {
	q.closed = true
	q.some.Signal()
}

// emitLocked queues an event about t for the observer, if there is one.
func (d *Dispatcher[M]) emitLocked(kind EventKind, t *task[M], worker int, err error) {
	if d.cfg.Observer != nil {
		d.queueEventLocked(t, Event[M]{Kind: kind, Worker: worker, Err: err})
	}
}

// emitKeyLocked is emitLocked for an event that also concerns a key.
func (d *Dispatcher[M]) emitKeyLocked(kind EventKind, t *task[M], worker int, key lockkeys.Key, blocker uint64) {
	if d.cfg.Observer != nil {
		d.queueEventLocked(t, Event[M]{Kind: kind, Worker: worker, Key: key, Blocker: blocker})
	}
}

// emitBlockedLocked queues the event that t waits, and for what.
func (d *Dispatcher[M]) emitBlockedLocked(t *task[M]) {
	if d.cfg.Observer == nil {
		return
	}
	if request, by, ok := d.blockerLocked(t); ok {
		d.emitKeyLocked(Blocked, t, -1, request.Key, by.Owner.id)
	}
}

// emitQueuedLocked queues the event that a message was accepted.
func (d *Dispatcher[M]) emitQueuedLocked(a *arrival[M], id uint64) {
	d.mu.events.pushLocked(Event[M]{
		Kind: Queued, Time: time.Now(), ID: id, Message: a.msg, Claim: slices.Clone(a.claim.Requests()), Worker: -1,
	})
}

func (d *Dispatcher[M]) queueEventLocked(t *task[M], e Event[M]) {
	e.Time = time.Now()
	e.ID, e.Message, e.Attempt = t.id, t.msg, int(t.attempts)
	e.Claim = slices.Clone(t.claim.Requests())
	t.more().since = e.Time
	d.mu.events.pushLocked(e)
}

func (q *eventQueue[M]) pushLocked(e Event[M]) {
	q.pending = append(q.pending, e)
	if len(q.pending) == 1 {
		q.some.Signal()
	}
}

// observe passes events to the observer until the queue is closed. If the
// observer ends the goroutine, another one continues with the next event.
func (d *Dispatcher[M]) observe() {
	defer d.enlist()()
	q := &d.mu.events
	for {
		for q.told < len(q.taken) {
			e := q.taken[q.told]
			q.taken[q.told] = Event[M]{}
			q.told++
			d.tell(e)
		}
		d.mu.Lock()
		for len(q.pending) == 0 && !q.closed {
			q.some.Wait()
		}
		q.taken, q.pending, q.told = q.pending, q.taken[:0], 0
		q.fewer.Broadcast()
		d.mu.Unlock()
		if len(q.taken) == 0 {
			close(d.observerGone)
			return
		}
	}
}

// tell calls the observer; a panic there must not end the dispatcher.
func (d *Dispatcher[M]) tell(e Event[M]) {
	caught := ErrGoexit
	defer func() {
		if caught != nil {
			d.cfg.Logger.Error("observer failed", append(d.about(e.ID, e.Message, e.Claim), "event", e.Kind, "err", caught)...)
		}
	}()
	defer contain.Recover(&caught)
	d.cfg.Observer(e)
	caught = nil
}
