package ordering

import "errors"

// Errors of a store.
var (
	// ErrDuplicate is wrapped by the error of a commit for an event of which
	// a number is done already. Its effect was not applied again.
	ErrDuplicate = errors.New("ordering: number is done already")
	// ErrFenced is wrapped by the error of a commit to a stream that someone
	// else has taken over. Nothing was written.
	ErrFenced = errors.New("ordering: stream was taken over by another holder")
	// ErrNoJob is wrapped by the error for an event that there is no job
	// state for: it was not processed, or its state was pruned.
	ErrNoJob = errors.New("ordering: no job state of this event")
	// ErrStoreClosed is returned by a store that was closed.
	ErrStoreClosed = errors.New("ordering: store is closed")
	// ErrSchema is wrapped by the error of opening a database whose schema
	// this version cannot use; the text says what to do.
	ErrSchema = errors.New("ordering: schema of the database")
)
