package dispatcher

import (
	"cmp"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Stats counts messages. The first group only grows; the second is the state
// of the moment.
type Stats struct {
	Accepted  uint64
	Started   uint64 // attempts begun, and ones that widened or were cut off
	Retried   uint64 // attempts that failed and were followed by another
	Succeeded uint64
	Failed    uint64 // ended with an error, skipped and dropped ones included
	Refused   uint64 // submissions refused with ErrTooManyParked

	Queued  int // accepted and not considered yet
	Waiting int // behind a conflicting message; those behind a parked one not included
	Ready   int // have their keys and wait for a worker
	Running int
	Backoff int // wait for their next attempt
	Parked  int
	Behind  int // behind a parked message
	Beyond  int // of Parked and Behind: those beyond MaxParked, which count as pending
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
	s.Backoff = len(d.mu.backoff)
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

// Snapshot is what a dispatcher holds at one moment.
type Snapshot[M any] struct {
	// Messages are those considered so far, in order of arrival: all that
	// hold or wait for keys.
	Messages []MessageInfo[M]
	// Queued is the number of those not considered yet.
	Queued int
}

// MessageInfo is one message in a snapshot.
type MessageInfo[M any] struct {
	ID       uint64
	Message  M
	State    State
	Claim    []lockkeys.Request
	Attempts int
	Worker   int   // the worker that runs it, from 0, or -1
	Err      error // of the last attempt
	// Since is when the message came into its state. It is known for parked
	// messages, and with an Observer for all; otherwise it is zero.
	Since time.Time
	// Blocker is the ID of the nearest message that this one waits for, and
	// BlockedBy the request of that message which is in its way. Blocker is
	// 0 for messages that wait for none.
	Blocker   uint64
	BlockedBy lockkeys.Request
	// Stalled tells whether it is behind a parked message: whether it waits
	// for one, directly or not. One that waits for a running message as well
	// counts only if it came after that was parked, or else when the running
	// one has ended.
	Stalled bool
}

// Snapshot returns a consistent picture of who holds what and who waits for
// whom. It goes once through all messages that hold or wait for keys, under
// the mutex, and is meant for people and for tests.
func (d *Dispatcher[M]) Snapshot() Snapshot[M] {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, queued := d.intake.counts()
	s := Snapshot[M]{Queued: queued}
	add := func(t *task[M], worker int) {
		m := MessageInfo[M]{t.id, t.msg, t.state, slices.Clone(t.claim.Requests()), t.attempts, worker, t.err, time.Time{}, 0, lockkeys.Request{}, t.apart && t.state == StateWaiting}
		if t.extra != nil {
			m.Since = t.extra.since
		}
		if t.state == StateWaiting {
			if request, by, ok := d.blockerLocked(t); ok {
				m.Blocker, m.BlockedBy = by.Owner.id, request
			}
		}
		s.Messages = append(s.Messages, m)
	}
	for _, list := range []*taskList[M]{&d.mu.waiting, &d.mu.aside, &d.mu.beyond} {
		for t := list.first; t != nil; t = t.next {
			add(t, -1)
		}
	}
	for _, t := range d.mu.ready {
		add(t, -1)
	}
	for t := range d.mu.backoff {
		add(t, -1)
	}
	for _, w := range d.mu.workers {
		for _, t := range w.batch {
			add(t, w.index)
		}
	}
	slices.SortFunc(s.Messages, func(a, b MessageInfo[M]) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

// blockerLocked names what t waits for.
func (d *Dispatcher[M]) blockerLocked(t *task[M]) (lockkeys.Request, *lockkeys.Place[*task[M]], bool) {
	if t.apart {
		return d.mu.closed.Blocker(&t.place)
	}
	return d.mu.set.Blocker(&t.place)
}
