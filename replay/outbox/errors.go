package outbox

import (
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering"
)

// Errors of New and NewRelay.
var (
	// ErrConfig is wrapped by the errors for an invalid configuration; the text
	// names every problem.
	ErrConfig = errors.New("outbox: bad configuration")
	// ErrRunning is returned by Run of a relay that runs already.
	ErrRunning = errors.New("outbox: this relay runs already: make another one")
)

// ErrPooled is wrapped by the error of a relay behind a pooler that gives a
// session of PostgreSQL to many connections in turn: there its lock would stay
// with others, and two relays could be active. Connect the relay to its database
// directly, or through a pooler with pool_mode=session.
var ErrPooled = sqldb.ErrPooled

// Errors of Enqueue. The error for an invalid event is an
// [*ordering.EventError].
var (
	// ErrNoTx is returned for a nil transaction.
	ErrNoTx = errors.New("outbox: no transaction: pass that of the change that the event describes")
	// ErrNoEvent is returned for a nil event.
	ErrNoEvent = errors.New("outbox: no event: pass one")
	// ErrNumbered is wrapped by the error for an event with a number: the
	// outbox assigns them.
	ErrNumbered = errors.New("outbox: the event has a number already: leave Number and Epoch at 0")
	// ErrEnded is wrapped by the error for an event on a stream whose last
	// event, one with End, was enqueued before.
	ErrEnded = errors.New("outbox: stream has ended")
	// ErrDuplicateID is wrapped by the error for an event that was enqueued
	// before, with the same ID, streams, type and payload, and is still kept. It
	// makes a repeated command harmless if it determines the event's ID.
	ErrDuplicateID = errors.New("outbox: this event was enqueued before")
	// ErrOtherEvent is wrapped by the error for an event with the ID of another
	// one that is still kept, with other streams or content; so this one was not
	// enqueued. An ID must be unique in the whole outbox.
	ErrOtherEvent = errors.New("outbox: another event has this ID: give this one an ID of its own")
)

// ErrConflict is wrapped by the errors of Enqueue and Lock when another
// transaction was in the way: each waited for the other's streams, or the two
// have no serial order, or the wait took longer than the database allows.
// Nothing is lost. Roll back: the conflict lasts while the transaction keeps its
// streams.
var ErrConflict = errors.New("outbox: another transaction was in the way: roll this one back and run it again from its beginning; " +
	"if it enqueues several events, take all their streams with Lock first")

// ErrVersion is wrapped by a [VersionError].
var ErrVersion = errors.New("outbox: the stream is not at the expected position")

// VersionError is the error of EnqueueAll for a stream that is not where the caller
// expects it, since another transaction has added events to it. Roll back, read
// again and decide again.
type VersionError struct {
	Expected, Actual ordering.Position // of the same stream; Number 0 if it has no events
}

// Error names the stream and both positions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%v: %.80s: expected %s, it is at %s: read again and decide again",
		ErrVersion, e.Expected.Stream, version(e.Expected), version(e.Actual))
}

// Unwrap returns ErrVersion.
func (e *VersionError) Unwrap() error { return ErrVersion }

func version(p ordering.Position) string {
	if p.Epoch == 0 {
		return fmt.Sprint(p.Number)
	}
	return fmt.Sprintf("%d of epoch %d", p.Number, p.Epoch)
}

// ErrNotParked is wrapped by the errors of Resume, Skip and Drop for an event that is
// not parked, or not any more.
var ErrNotParked = errors.New("outbox: no parked event with this ID: see Parked")

// ErrRange is wrapped by the error of Fetch for an invalid range.
var ErrRange = errors.New("outbox: invalid range: it must be rising, from 1 on")
