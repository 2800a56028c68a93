package eventlog

import (
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/outbox"
)

// Errors of New and Subscribe.
var (
	// ErrConfig is wrapped by the errors for an invalid configuration; the text
	// names every problem.
	ErrConfig = errors.New("eventlog: bad configuration")
	// ErrSchema is wrapped by the error of New for tables of a newer version; the
	// text says what to do.
	ErrSchema = outbox.ErrSchema
)

// Errors of Append, beside those of [outbox.Outbox.EnqueueAll].
var (
	// ErrVersion is wrapped by a [VersionError].
	ErrVersion = outbox.ErrVersion
	// ErrConflict is wrapped by the error for a transaction that was in the way of
	// another: roll it back and run it again.
	ErrConflict = outbox.ErrConflict
	// ErrPartition is wrapped by the error for an event whose streams are in several
	// partitions, or in one that does not exist.
	ErrPartition = errors.New("eventlog: the event has no partition")
	// ErrPartly is wrapped by the error for events of which some were appended before
	// and some were not.
	ErrPartly = errors.New("eventlog: some of the events were appended before, and some were not: append what was appended together in one call")
)

// VersionError is the error of Append for a stream that is not where the caller
// expects it.
type VersionError = outbox.VersionError

// Errors of reading.
var (
	// ErrNotInLog is wrapped by the error for an event that is on the stream, and not
	// in the log: it was enqueued with another outbox on the same tables.
	ErrNotInLog = errors.New("eventlog: the event is in the outbox, and not in the log: enqueue with Log.Outbox alone")
	// ErrLost is wrapped by the error for an entry whose event is not there any more:
	// it was deleted by hand, or by an outbox with a Retention on the same tables.
	ErrLost = errors.New("eventlog: the event of the entry is not there any more")
	// ErrQuery is wrapped by the error for an invalid query.
	ErrQuery = errors.New("eventlog: invalid query")
)

// EntryError is the error for an entry that cannot be read.
type EntryError struct {
	At     ordering.Position // of the entry, on the stream of its partition
	Event  string            // the event's ID, if it is known
	Reason error
}

// Error names the entry and its event.
func (e *EntryError) Error() string {
	return fmt.Sprintf("eventlog: entry %s, event %.80q: %v", e.At, e.Event, e.Reason)
}

// Unwrap returns the reason.
func (e *EntryError) Unwrap() error { return e.Reason }
