package backup

import (
	"errors"
	"fmt"
	"time"
)

// ErrConfig is wrapped by the errors of [NewPublisher], [NewClient] and
// [NewHandler] for an invalid configuration; the text names every problem.
var ErrConfig = errors.New("backup: bad configuration")

// Reasons why the primary did not confirm an event: wrapped by
// [FailedError.Primary], and by the causes of switches.
var (
	// ErrSlow: it did not confirm the event within [PublisherConfig.Timeout].
	// It may have the event all the same.
	ErrSlow = errors.New("backup: the primary did not confirm in time")
	// ErrLost: the primary lost its broker, as reported by
	// [PublisherConfig.Alive], before the event was confirmed.
	ErrLost = errors.New("backup: the primary has lost its broker")
	// ErrResting: it was not tried, since it has failed recently; the error of
	// its last failure is wrapped as well.
	ErrResting = errors.New("backup: the primary is not tried for a while after failures")
)

// FailedError is the error of an event that neither channel has confirmed.
// Either may have it all the same. Send the event again, unless the error is
// marked by [dispatcher.Permanent]: then the receiver of the backup refuses the
// event for good, and not for its size.
type FailedError struct {
	Primary error
	Backup  error
}

// Error returns both errors.
func (e *FailedError) Error() string {
	return fmt.Sprintf("backup: neither channel has confirmed the event: primary: %v; backup: %v", e.Primary, e.Backup)
}

// Unwrap returns both.
func (e *FailedError) Unwrap() []error { return []error{e.Primary, e.Backup} }

// Causes of an [*Error].
var (
	// ErrVersion: the receiver has another version of the protocol.
	ErrVersion = errors.New("another version of the protocol: upgrade the older side")
	// ErrUnauthorised: the receiver refused the signature or the token.
	ErrUnauthorised = errors.New("not authorised: compare keys, tokens and clocks")
	// ErrTooLarge: the request has more bytes or events than the receiver
	// accepts.
	ErrTooLarge = errors.New("too large")
	// ErrBusy: the receiver is overloaded, or about to end; see
	// [Error.RetryAfter].
	ErrBusy = errors.New("the receiver is busy: send again later")
	// ErrBadEvent: an event is not valid, according to the receiver.
	ErrBadEvent = errors.New("bad event")
	// ErrResponse: the response is not one of the protocol, was cut off, or
	// does not parse.
	ErrResponse = errors.New("not a response of the backup protocol")
)

// Error says which request failed, and why. Its cause may be one of the errors
// above or a network error. The outcome of the events is unknown then, unless the
// receiver refused the request.
type Error struct {
	URL        string
	Status     int           // 0 if there was no response
	Code       string        // of the protocol, "" if the response had none
	RetryAfter time.Duration // the wait that the receiver asks for, 0 if none
	Err        error
}

// Error names the URL, the status and the cause.
func (e *Error) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("backup: POST %s: %v", e.URL, e.Err)
	}
	return fmt.Sprintf("backup: POST %s: status %d: %v", e.URL, e.Status, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ResultError says why the receiver did not confirm an event.
type ResultError struct {
	Event   string // its name
	Result  string // "refused", "unfinished" or "pending"; see the package documentation
	Message string // the receiver's explanation, for people
}

// Error names the event, the result and the receiver's message.
func (e *ResultError) Error() string {
	return fmt.Sprintf("backup: event %.80q: %.40s: %.1000s", e.Event, e.Result, e.Message)
}
