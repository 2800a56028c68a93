package dispatcher

import (
	"fmt"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// EventKind is the kind of an event.
type EventKind uint8

const (
	// Queued: the message was accepted.
	Queued EventKind = iota
	// Blocked: the message was considered and has to wait. Key and Blocker name
	// one request that it waits for.
	Blocked
	// Started: a worker calls the handler. Attempt counts from 1.
	Started
	// Retried: the attempt failed with Err and another will follow.
	Retried
	// Widened: the handler asked for more keys; Claim is the wider claim.
	Widened
	// Released: the handler released Key early; Claim is what is left.
	Released
	// Held: the handler has returned and the message keeps its keys until it is
	// finished; see [Hold].
	Held
	// HoldEnded: the held message was finished with Err, or the time limit has
	// passed. The event of the outcome follows.
	HoldEnded
	// Undone: the work on the message was undone, with that on others of its batch
	// or chain, because of Err; or it had not begun. It will start again, and the
	// attempt does not count.
	Undone
	// Parked: the message failed with Err and its keys stay closed.
	Parked
	// Resumed: an operator let the parked message run again.
	Resumed
	// Halted: the attempt ended with Err, and the message stays for Shutdown to
	// return: it failed under the policy Stop, or the shutdown cut it off.
	Halted
	// Finished: the message ended, and its keys are released. Err is its
	// result.
	Finished
)

var eventNames = [...]string{"queued", "blocked", "started", "retried", "widened", "released", "held", "hold ended", "undone", "parked", "resumed", "halted", "finished"}

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
	Claim   []lockkeys.Request // of the message; must not be changed
	Attempt int                // attempts begun so far
	Worker  int                // from 0; -1 if no worker is involved
	Key     lockkeys.Key       // with Blocked and Released
	Blocker uint64             // with Blocked: the ID of the message that it waits for
	Err     error              // with Retried, HoldEnded, Undone, Parked, Halted and Finished
}
