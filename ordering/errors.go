package ordering

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Errors of a store.
var (
	// ErrDuplicate is wrapped by the error of a commit for an event with a
	// number that is already done, or of a command that is known. Its effect
	// was not applied again.
	ErrDuplicate = errors.New("ordering: number is done already, or command is known")
	// ErrFenced is wrapped by the error of a call that needs a term, or a
	// stream, that the caller no longer holds or never held. Nothing was
	// written. If the new holder is known, the error is a [*TakenOverError].
	ErrFenced = errors.New("ordering: term or stream is not the caller's: another holder has taken it over, or it was never acquired")
	// ErrReply is wrapped by the error of a commit with a reply that is larger
	// than MaxReply.
	ErrReply = errors.New("ordering: reply is too large")
	// ErrJobOver is wrapped by the error of a commit for a job whose handler has
	// returned.
	ErrJobOver = errors.New("ordering: the handler has returned, and commits nothing any more: it must wait for what it has started")
	// ErrStoreClosed is returned by a store that was closed.
	ErrStoreClosed = errors.New("ordering: store is closed")
	// ErrSchema is wrapped by the error of opening a database whose schema
	// this version cannot use; the text says what to do.
	ErrSchema = errors.New("ordering: schema of the database")
)

// StoreError marks an error as one of the store, such as a lost connection or a
// full disk, and not of the event. The sequencer waits for the store then, see
// [Config.StoreTimeout].
type StoreError struct {
	Op  string // the operation: "commit" for example
	Err error
}

// Error returns the operation and the cause.
func (e *StoreError) Error() string { return "ordering: store: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// Errors of a sequencer.
var (
	// ErrConfig is wrapped by the error of [New] for an invalid configuration;
	// the text names every problem.
	ErrConfig = errors.New("ordering: bad configuration")
	// ErrClosed is the error of offers after Shutdown or Close, and of events
	// that a shutdown leaves unfinished.
	ErrClosed = errors.New("ordering: sequencer is closed")
	// ErrStopped is wrapped, together with the cause, by the error of offers
	// after the sequencer has stopped because of a failure.
	ErrStopped = errors.New("ordering: sequencer was stopped")
	// ErrNilEvent is returned for an offer of nil.
	ErrNilEvent = errors.New("ordering: event is nil")
	// ErrEnded is wrapped by the error of an event that is refused because its
	// number is after its stream's end.
	ErrEnded = errors.New("ordering: stream has ended before this number")
	// ErrTooFar is wrapped by the error of an operation that would skip more
	// numbers at once than [Config.MaxSkip].
	ErrTooFar = errors.New("ordering: more numbers at once than MaxSkip")
	// ErrNotParked is wrapped by the errors of Resume, Skip and Drop for a
	// stream that is not parked.
	ErrNotParked = errors.New("ordering: stream is not parked")
	// ErrNotOwned is wrapped by the errors of Resume, Skip, SkipTo and Drop for a stream
	// that is another sequencer's by [Config.Owns]: to decide about it here would take it
	// over, and stop that one.
	ErrNotOwned = errors.New("ordering: stream belongs to another partition: decide in the process that has it, or leave a request by sqlstore.Operator, which finds it")
	// ErrSameID is the error of a [SameID] notice.
	ErrSameID = errors.New("ordering: another event with other numbers has the same ID; both run, since numbers identify an event: give each event an ID of its own")
	// ErrUnconfirmed is the error of an [Unconfirmed] notice.
	ErrUnconfirmed = errors.New("ordering: its numbers are done, and it is not known any more by which event: if its producer has given them again, this one is another event, and is not applied: let the producer raise its epoch")
	// ErrGap is wrapped by the error of a gap that stayed open.
	ErrGap = errors.New("ordering: events are missing")
	// ErrNoReplayer is wrapped, with ErrGap, if there is no Config.Replayer.
	ErrNoReplayer = errors.New("ordering: no replayer: set Config.Replayer to ask for events that did not come")
)

// LostError is the error for a store that has lost durable data, because a
// lagging standby was promoted or an older copy was restored. Effects that were
// stored with it are lost as well. Nothing was written.
type LostError struct {
	// Stream is the stream whose numbers the store has lost.
	Stream lockkeys.Key
	// Term reports whether the store has lost the caller's term. Then there is
	// no Stream, and Known and Has are numbers of terms.
	Term bool
	// Known is the place, see [Position.Place], of a number that was done, and Has
	// that of the last one up to which all are done in the store.
	Known, Has uint64
}

// Error says what was lost, and what to do.
func (e *LostError) Error() string {
	what := fmt.Sprintf("stream %.200s was done up to %s, and is now at %s",
		e.Stream, PositionAt(e.Stream, e.Known).number(), PositionAt(e.Stream, e.Has).number())
	if e.Term {
		what = fmt.Sprintf("it is in term %d, after it had been in %d", e.Has, e.Known)
	}
	return "ordering: the store has lost what it had made durable: " + what +
		": find out whether it is an older copy, or a standby that lagged behind, before you start again"
}

// TakenOverError is the error for a term or stream that another term has taken
// over. Nothing was written.
type TakenOverError struct {
	// Consumer is that of the other term: the same name, its partition, and its
	// holder.
	Consumer
	// Since is when the other term began.
	Since time.Time
	// Stream is the stream that was taken over. It is nil if the caller's term as
	// a whole is over.
	Stream *lockkeys.Key
	// Ended reports that there is no other term: the caller's own was ended by
	// [Term].End.
	Ended bool
}

// Unwrap returns ErrFenced.
func (e *TakenOverError) Unwrap() error { return ErrFenced }

// Error names the new holder, what it has taken over, and when.
func (e *TakenOverError) Error() string {
	what := "the term"
	if e.Stream != nil {
		what = fmt.Sprintf("stream %.200s", *e.Stream)
	}
	if e.Ended {
		return fmt.Sprintf("ordering: %s of consumer %q, partition %q was ended by its own holder: begin a new one", what, e.Name, e.Partition)
	}
	return fmt.Sprintf("ordering: %s was taken over by %s, for consumer %q, partition %q, whose term began %s",
		what, e.Holder, e.Name, e.Partition, e.Since.UTC().Format(time.RFC3339Nano))
}

// ContradictionError lists events whose numbers contradict each other, so that
// they can never run: each waits for the other, or some but not all numbers of
// one are done.
type ContradictionError struct {
	Events []*Event
}

// Unwrap returns ErrContradiction.
func (e *ContradictionError) Unwrap() error { return ErrContradiction }

// Error names the first few events, with their positions.
func (e *ContradictionError) Error() string {
	const few = 4
	var b strings.Builder
	b.WriteString("ordering: events contradict each other in their numbers:")
	for i, event := range e.Events {
		if i == few {
			fmt.Fprintf(&b, " and %d more", len(e.Events)-few)
			break
		}
		fmt.Fprintf(&b, " %.80q (%.200s)", event.Name(), FormatSequenceID(event.Positions))
	}
	return b.String()
}

// HeldError is the error of [Sequencer.Do] for an event that is held because a
// stream of it is parked.
type HeldError struct {
	Event   *Event
	Parking *Parking // that it waits for; nil if that is over by now, or unknown
}

// Error names the event and the parking that it waits for.
func (e *HeldError) Error() string {
	if e.Parking == nil {
		return fmt.Sprintf("ordering: event %.80q is held, and will run in its turn", e.Event.Name())
	}
	what := e.Parking.Reason.String()
	if len(e.Parking.Events) > 0 {
		what += fmt.Sprintf(" of event %.80q", e.Parking.Events[0].Name())
	}
	return fmt.Sprintf("ordering: event %.80q is held: its stream is parked for the %s: %s: resume, skip or drop that",
		e.Event.Name(), what, e.Parking.Error)
}

// GivenUpError is the error for a repeat of an event that was given up: it was
// not applied, and never will be.
type GivenUpError struct{ Job JobState }

// Error names the event and says why it was given up.
func (e *GivenUpError) Error() string {
	why := e.Job.Error
	if e.Job.Reason != "" {
		why = e.Job.Reason
	}
	return fmt.Sprintf("ordering: event %.80q was given up, and not applied: %s", e.Job.Event, why)
}

// SpreadError is the error for a failure that has closed more streams than
// [Config.MaxSpread].
type SpreadError struct{ Parking Parking }

// Error names the failed events.
func (e *SpreadError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ordering: %d streams are closed by one failure, which is more than MaxSpread:", len(e.Parking.Streams))
	for i, h := range e.Parking.Events {
		if i == 4 {
			fmt.Fprintf(&b, " and %d more", len(e.Parking.Events)-i)
			break
		}
		fmt.Fprintf(&b, " %.80q (%.200s)", h.Name(), FormatSequenceID(h.Positions))
	}
	b.WriteString(": " + e.Parking.Error)
	return b.String()
}
