package dispatcher

import (
	"fmt"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Observer is told of everything that happens to messages, in the order in
// which it happened. It is called from one goroutine of the dispatcher, never
// under its mutex. An observer that is slower than the messages makes the
// dispatcher wait for it once some thousands of events are outstanding.
// Shutdown returns after the last event was observed. An observer must not
// wait for the dispatcher: what would is refused with [ErrNested], but for Do and
// for waiting on tickets, which can wait for ever there.
type Observer[M any] interface {
	Observe(e Event[M])
}

// ObserverFunc makes a function an [Observer].
type ObserverFunc[M any] func(e Event[M])

// Observe calls f.
func (f ObserverFunc[M]) Observe(e Event[M]) { f(e) }

// EventKind tells what an event is about.
type EventKind uint8

const (
	// Queued: the message was accepted.
	Queued EventKind = iota
	// Blocked: the message was considered and has to wait. Key and Blocker
	// name one claim that it waits for.
	Blocked
	// Started: a worker calls the handler. Attempt counts from 1.
	Started
	// Retried: the attempt failed with Err and another will follow.
	Retried
	// Widened: the handler asked for more keys; Claim is the wider claim.
	Widened
	// Released: the handler gave back Key before its end; Claim is what is left.
	Released
	// Parked: the message failed with Err and its keys stay closed.
	Parked
	// Resumed: an operator let the parked message run again.
	Resumed
	// Halted: the attempt ended with Err, and the message stays for Shutdown to
	// return: it failed under the policy Stop, or the shutdown cut it off.
	Halted
	// Finished: the message ended, and its keys are free. Err is its result.
	Finished
)

var eventNames = [...]string{"queued", "blocked", "started", "retried", "widened", "released", "parked", "resumed", "halted", "finished"}

// String returns the name in lower case.
func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// Event is one thing that happened to one message.
type Event[M any] struct {
	Kind    EventKind
	Time    time.Time
	ID      uint64 // the message's arrival number, from 1
	Message M
	Claim   []lockkeys.Request // what the message claims; not to be changed
	Attempt int                // attempts begun so far
	Worker  int                // from 0; -1 where no worker is concerned
	Key     lockkeys.Key       // with Blocked and Released
	Blocker uint64             // with Blocked: the ID of a message in the way
	Err     error              // with Retried, Parked, Halted and Finished
}
