package dispatcher

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Stats counts messages. The first group only grows; the second is the current
// state.
type Stats struct {
	Accepted  uint64
	Started   uint64 // attempts begun, including ones that widened, were cut off, or were undone with a batch or chain
	Retried   uint64 // attempts that failed and were followed by another
	Succeeded uint64
	Failed    uint64 // ended with an error, skipped and dropped ones included
	Chains    uint64 // calls of Together
	Undone    uint64 // of these, ones whose work was undone
	Refused   uint64 // submissions refused with ErrTooManyParked

	Queued  int // accepted and not considered yet
	Waiting int // behind a conflicting message, except those behind a parked one
	Ready   int // hold their keys and wait for a worker
	Running int
	Backoff int // wait for their next attempt
	Held    int // wait to be finished, or finished and waiting for a worker; see Hold
	Parked  int
	Behind  int // behind a parked message
	Beyond  int // those of Parked and Behind that exceed MaxParked and count as pending
}

// Stats returns the counts, all of one moment.
func (d *Dispatcher[M]) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.mu.stats
	s.Accepted, s.Queued = d.intake.counts()
	s.Waiting = d.mu.waiting.len
	s.Ready = len(d.mu.ready)
	s.Running = d.runningLocked()
	s.Held = d.mu.held
	s.Backoff = len(d.mu.kept) - (d.mu.held - d.mu.finished.len)
	s.Parked, s.Behind = d.parkedLocked()
	s.Beyond = d.mu.beyond.len
	return s
}

func (d *Dispatcher[M]) runningLocked() (n int) {
	for _, w := range d.mu.workers {
		n += len(w.batch)
	}
	return n
}

// heldLocked returns the messages that are held, finished or not.
func (d *Dispatcher[M]) heldLocked() (held []*task[M]) {
	for t := range d.mu.kept {
		if t.state == StateHeld {
			held = append(held, t)
		}
	}
	return append(held, d.mu.finished.all()...)
}

// Snapshot is the state of a dispatcher at one moment.
type Snapshot[M any] struct {
	// Messages are those considered so far, which hold or wait for keys, in
	// order of arrival.
	Messages []MessageInfo[M]
	// Queued is the number of those not considered yet.
	Queued int
}

// MessageInfo is one message in a snapshot.
type MessageInfo[M any] struct {
	ID       uint64
	Name     string // that Config.Name gives it
	Message  M
	State    State
	Claim    []lockkeys.Request
	Attempts int
	Worker   int   // the worker that runs it, from 0, or -1
	Err      error // of the last attempt
	// Since is when the message came into its state. It is known for messages that
	// wait, are kept for a later attempt, held or parked, and with an Observer for
	// all; otherwise it is zero.
	Since time.Time
	// Next is when the next attempt begins, or the time limit of a hold is over; zero
	// if the message waits for neither.
	Next time.Time
	// Blocker is the ID of a message that this one waits for, and BlockedBy the
	// request of that message that blocks it. Blocker is 0 if it waits for
	// none.
	Blocker   uint64
	BlockedBy lockkeys.Request
	// Stalled reports whether the message waits for a parked one, directly or
	// indirectly. One that already waited for a running message when the other
	// was parked counts only after the running one has ended.
	Stalled bool
}

// Snapshot returns a consistent picture of who holds what and who waits for
// whom. It visits all messages that hold or wait for keys, under the mutex, and
// is meant for operators and tests.
func (d *Dispatcher[M]) Snapshot() Snapshot[M] {
	s := d.snapshot()
	for i := range s.Messages {
		s.Messages[i].Name = d.name(s.Messages[i].Message)
	}
	return s
}

// snapshot is Snapshot without names.
func (d *Dispatcher[M]) snapshot() Snapshot[M] {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, queued := d.intake.counts()
	s := Snapshot[M]{Queued: queued}
	for t, worker := range d.consideredLocked() {
		s.Messages = append(s.Messages, d.infoLocked(t, worker))
	}
	slices.SortFunc(s.Messages, byID)
	return s
}

func byID[M any](a, b MessageInfo[M]) int { return cmp.Compare(a.ID, b.ID) }

// consideredLocked returns all messages considered so far, each with the worker that
// runs it or -1: first those that hold their keys, parked ones last and in the order of
// arrival, then those that wait.
func (d *Dispatcher[M]) consideredLocked() iter.Seq2[*task[M], int] {
	return func(yield func(*task[M], int) bool) {
		for _, w := range d.mu.workers {
			for _, t := range w.batch {
				if !yield(t, w.index) {
					return
				}
			}
		}
		for _, t := range d.mu.ready {
			if !yield(t, -1) {
				return
			}
		}
		for t := range d.mu.kept {
			if !yield(t, -1) {
				return
			}
		}
		for t := d.mu.finished.first; t != nil; t = t.next {
			if !yield(t, -1) {
				return
			}
		}
		for _, t := range slices.SortedFunc(maps.Values(d.mu.parked), byArrival) {
			if !yield(t, -1) {
				return
			}
		}
		for _, list := range []*taskList[M]{&d.mu.waiting, &d.mu.aside, &d.mu.beyond} {
			for t := list.first; t != nil; t = t.next {
				if t.state != StateParked && !yield(t, -1) {
					return
				}
			}
		}
	}
}

func (d *Dispatcher[M]) infoLocked(t *task[M], worker int) MessageInfo[M] {
	m := MessageInfo[M]{
		ID: t.id, Message: t.msg, State: t.state, Claim: slices.Clone(t.claim.Requests()), Attempts: int(t.attempts),
		Worker: worker, Err: t.err, Stalled: t.apart && t.state == StateWaiting,
	}
	switch {
	case t.state == StateWaiting:
		m.Since = d.made.Add(t.blocked)
		if request, by, ok := d.blockerLocked(t); ok {
			m.Blocker, m.BlockedBy = by.Owner.id, request
		}
	case t.extra != nil && (t.state > StateRunning || d.cfg.Observer != nil):
		m.Since = t.extra.since
	}
	if t.extra != nil && t.extra.timer != nil {
		m.Next = t.extra.due
	}
	return m
}

// blockerLocked returns a request that t waits for, and its place.
func (d *Dispatcher[M]) blockerLocked(t *task[M]) (lockkeys.Request, *lockkeys.Place[*task[M]], bool) {
	if t.apart {
		return d.mu.closed.Blocker(&t.place)
	}
	return d.mu.set.Blocker(&t.place)
}
