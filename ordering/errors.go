package ordering

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of a store.
var (
	// ErrDuplicate is wrapped by the error of a commit for an event of which
	// a number is done already. Its effect was not applied again.
	ErrDuplicate = errors.New("ordering: number is done already")
	// ErrFenced is wrapped by the error of writing to a stream that someone
	// else has taken over. Nothing was written.
	ErrFenced = errors.New("ordering: stream was taken over by another holder")
	// ErrStoreClosed is returned by a store that was closed.
	ErrStoreClosed = errors.New("ordering: store is closed")
	// ErrSchema is wrapped by the error of opening a database whose schema
	// this version cannot use; the text says what to do.
	ErrSchema = errors.New("ordering: schema of the database")
)

// StoreError marks an error as the store's own, a lost connection or a full
// disk: not the fault of the event that was to be committed. By default it
// stops the sequencer once the attempts are used up, see [Config.FailureFor].
type StoreError struct {
	Op  string // what was tried: "commit" for example
	Err error
}

// Error returns the operation and the cause.
func (e *StoreError) Error() string { return "ordering: store: " + e.Op + ": " + e.Err.Error() }

// Unwrap gives the cause to errors.Is and errors.As.
func (e *StoreError) Unwrap() error { return e.Err }

// Errors of a sequencer.
var (
	// ErrConfig is wrapped by what [New] returns for a configuration that
	// cannot work; the text names every problem.
	ErrConfig = errors.New("ordering: bad configuration")
	// ErrClosed is returned by offers after Shutdown or Close, and is the
	// reason of what a shutdown leaves unfinished.
	ErrClosed = errors.New("ordering: sequencer is closed")
	// ErrStopped is wrapped by what offers return after the policy Stop was
	// applied. The cause is wrapped as well.
	ErrStopped = errors.New("ordering: sequencer was stopped")
	// ErrNilEvent is returned for an offer of nil.
	ErrNilEvent = errors.New("ordering: event is nil")
	// ErrEnded is wrapped by the reason for refusing an event with a number
	// after its stream's end.
	ErrEnded = errors.New("ordering: stream has ended before this number")
	// ErrTooFar is wrapped by the error of what would skip more numbers at once
	// than [Config.MaxSkip].
	ErrTooFar = errors.New("ordering: more numbers at once than MaxSkip")
	// ErrNotParked is wrapped by what Resume, Skip and Drop return for a
	// stream that is not parked.
	ErrNotParked = errors.New("ordering: stream is not parked")
	// ErrSameID is that of a notice of [SameID].
	ErrSameID = errors.New("ordering: another event with other numbers has the same ID; both run, since numbers are what an event is known by")
	// ErrGap is wrapped by the error of a gap that stayed open.
	ErrGap = errors.New("ordering: events are missing")
	// ErrNoReplayer is wrapped, with ErrGap, if there was nobody to ask.
	ErrNoReplayer = errors.New("ordering: no replayer: set Config.Replayer to ask for events that did not come")
)

// LostError is the cause of a stop: the store says that numbers of an event are
// not done which it had made so. It may have been restored from an older copy;
// then effects are lost as well.
type LostError struct{ Event *Event }

// Error names the event.
func (e *LostError) Error() string {
	return fmt.Sprintf("ordering: the store has lost what it had made durable: %.80q (%.200s) was done: look whether it is an older copy",
		e.Event.Name(), FormatSequenceID(e.Event.Positions))
}

// ContradictionError says which events were numbered so that they can never
// run: each waits for the other, or of one some numbers are done and not all.
type ContradictionError struct {
	Events []*Event
}

// Unwrap gives ErrContradiction to errors.Is.
func (e *ContradictionError) Unwrap() error { return ErrContradiction }

// Error names the events with their positions, those of the first few.
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
