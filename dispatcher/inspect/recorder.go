package inspect

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// Timeline knows what happened to messages lately.
type Timeline interface {
	// Lately returns the n messages that something happened to last, the latest first.
	Lately(n int) []Life
}

// Life is what happened to a message, as far as it was seen.
type Life struct {
	ID    uint64       `json:"id"`
	Name  string       `json:"name,omitempty"`
	Key   lockkeys.Key `json:"key"` // the first of its claim
	Parts []Part       `json:"parts"`
	Ended bool         `json:"ended"`
	Err   string       `json:"err,omitempty"` // of its last attempt
}

// Part is a time that a message spent in a state.
type Part struct {
	State  string    `json:"state"` // "queued", "waiting", "ready", "running", "backoff", "held" or "parked"
	From   time.Time `json:"from"`
	To     time.Time `json:"to,omitzero"` // zero while it lasts
	Worker int       `json:"worker"`      // -1 if none has it
}

// Recorder keeps what happened to the last messages of a dispatcher, for a timeline. Set its
// method Observe as the dispatcher's [dispatcher.Config.Observer], and give it to the
// inspector as [Named.Timeline]. Observing costs time for each message: leave it out where
// messages are short and many.
//
// Its methods are safe for concurrent use.
type Recorder[M any] struct {
	name func(M) string

	mu sync.Mutex
	// Guarded by mu.
	lives map[uint64]*Life
	order []uint64 // of the last changes: a ring
	next  int
}

// NewRecorder returns a recorder of n messages, 200 if n is 0. name returns the name of a
// message, as the dispatcher's Config.Name does; it may be nil.
func NewRecorder[M any](n int, name func(M) string) *Recorder[M] {
	if n <= 0 {
		n = 200
	}
	return &Recorder[M]{name: name, lives: make(map[uint64]*Life, n), order: make([]uint64, n)}
}

// Observe notes an event.
func (r *Recorder[M]) Observe(e dispatcher.Event[M]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lives[e.ID]
	if l == nil {
		l = &Life{ID: e.ID}
		if r.name != nil {
			l.Name = r.name(e.Message)
		}
		if len(e.Claim) > 0 {
			l.Key = e.Claim[0].Key
		}
		if old := r.order[r.next]; old != 0 {
			delete(r.lives, old)
		}
		r.order[r.next] = e.ID
		r.next = (r.next + 1) % len(r.order)
		r.lives[e.ID] = l
	}
	if err := e.Err; err != nil {
		var last *dispatcher.HandlerError // it repeats what is known
		if errors.As(err, &last) {
			err = last.Err
		}
		l.Err = err.Error()
	}
	state, known := stateAfter[e.Kind]
	if !known {
		return
	}
	if n := len(l.Parts); n > 0 && l.Parts[n-1].To.IsZero() {
		l.Parts[n-1].To = e.Time
	}
	if e.Kind == dispatcher.Finished {
		l.Ended = true
		return
	}
	worker := -1
	if e.Kind == dispatcher.Started {
		worker = e.Worker
	}
	if len(l.Parts) == maxParts {
		l.Parts = slices.Delete(l.Parts, 0, 1)
	}
	l.Parts = append(l.Parts, Part{State: state, From: e.Time, Worker: worker})
}

// maxParts bounds what is kept of a message that is tried again and again.
const maxParts = 32

// stateAfter is the state that an event begins.
var stateAfter = map[dispatcher.EventKind]string{
	dispatcher.Queued:    "queued",
	dispatcher.Blocked:   stateWaiting,
	dispatcher.Started:   stateRunning,
	dispatcher.Retried:   stateBackoff,
	dispatcher.Held:      stateHeld,
	dispatcher.HoldEnded: stateReady,
	dispatcher.Widened:   stateReady, // or it waits, which follows
	dispatcher.Undone:    stateReady,
	dispatcher.Parked:    stateParked,
	dispatcher.Resumed:   stateReady,
	dispatcher.Halted:    stateBackoff,
	dispatcher.Finished:  "",
}

// Lately implements [Timeline].
func (r *Recorder[M]) Lately(n int) []Life {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Life, 0, len(r.lives))
	for _, l := range r.lives {
		c := *l
		c.Parts = slices.Clone(l.Parts)
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Life) int { return b.lastChange().Compare(a.lastChange()) })
	return list[:min(n, len(list))]
}

func (l Life) lastChange() time.Time {
	if len(l.Parts) == 0 {
		return time.Time{}
	}
	p := l.Parts[len(l.Parts)-1]
	if p.To.IsZero() {
		return p.From
	}
	return p.To
}
