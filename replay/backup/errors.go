package backup

import (
	"errors"
	"fmt"
	"time"
)

// ErrConfig is wrapped by what [NewPublisher], [NewClient], [NewHandler] and
// [NewReady] return for a configuration that cannot work; the text names every
// problem.
var ErrConfig = errors.New("backup: bad configuration")

// Why the primary did not take an event: wrapped by [FailedError.Primary], and
// by the causes of switches.
var (
	// ErrSlow: it did not confirm the event within [PublisherConfig.Timeout].
	// It may have taken it all the same.
	ErrSlow = errors.New("backup: the primary did not confirm in time")
	// ErrLost: the primary's way to its broker was lost, as told by
	// [PublisherConfig.Alive], before the event was confirmed.
	ErrLost = errors.New("backup: the primary has lost its broker")
	// ErrResting: it was not asked, since it failed a short while ago; the
	// error of its last failure is wrapped as well.
	ErrResting = errors.New("backup: the primary is left alone for a while after failures")
)

// errNoReturn is the outcome of an attempt that panicked or called
// runtime.Goexit.
var errNoReturn = errors.New("backup: the primary panicked or called runtime.Goexit")

// FailedError is the error of an event that neither channel has confirmed. It
// is to be sent again, unless it is marked by [dispatcher.Permanent] since the
// receiver at the backup's end refuses the event for what it is, not for its
// size: either channel may have taken it all the same.
type FailedError struct {
	Primary error
	Backup  error
}

// Error gives both errors.
func (e *FailedError) Error() string {
	return fmt.Sprintf("backup: neither channel has confirmed the event: primary: %v; backup: %v", e.Primary, e.Backup)
}

// Unwrap gives both to errors.Is and errors.As.
func (e *FailedError) Unwrap() []error { return []error{e.Primary, e.Backup} }

// Causes of an [*Error].
var (
	// ErrVersion: the receiver speaks another version of the protocol: upgrade
	// the older side.
	ErrVersion = errors.New("another version of the protocol")
	// ErrUnauthorised: the receiver refused the signature or the token:
	// compare keys, tokens and clocks.
	ErrUnauthorised = errors.New("not authorised")
	// ErrTooLarge: the request has more bytes or events than the receiver
	// takes.
	ErrTooLarge = errors.New("too large")
	// ErrBusy: the receiver has too much to do, or is about to end; see
	// [Error.RetryAfter].
	ErrBusy = errors.New("the receiver is busy")
	// ErrBadEvent: the receiver says that an event is not valid.
	ErrBadEvent = errors.New("bad event")
	// ErrResponse: the response is not one of the protocol, was cut off, or
	// does not parse.
	ErrResponse = errors.New("not a response of the backup protocol")
)

// Error says which request failed, and why. Its cause may be one of the errors
// above or a network error. What the receiver did with the events is not known
// then, unless it refused the request.
type Error struct {
	URL        string
	Status     int           // 0 if there was no response
	Code       string        // of the protocol, "" if the response had none
	RetryAfter time.Duration // how long the receiver asks to be left alone; 0 if it does not say
	Err        error
}

// Error names the URL, the status and the cause.
func (e *Error) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("backup: POST %s: %v", e.URL, e.Err)
	}
	return fmt.Sprintf("backup: POST %s: status %d: %v", e.URL, e.Status, e.Err)
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// ResultError says why the receiver did not confirm an event.
type ResultError struct {
	Event   string // its name
	Result  string // "refused", "unfinished" or "pending"; see the package's doc
	Message string // what the receiver says, for people
}

// Error names the event and what the receiver says.
func (e *ResultError) Error() string {
	return fmt.Sprintf("backup: event %.80q: %.40s: %.1000s", e.Event, e.Result, e.Message)
}
