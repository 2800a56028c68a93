package httpreplay

import (
	"errors"
	"fmt"
)

var (
	// ErrConfig is wrapped by the errors of [NewClient] and [NewServer] for an
	// invalid configuration; the text names every problem.
	ErrConfig = errors.New("httpreplay: bad configuration")

	// ErrVersion is wrapped by the error for a server with another version of
	// the protocol.
	ErrVersion = errors.New("another version of the protocol: upgrade the older side")
	// ErrUnauthorised is wrapped by the error for a request whose signature
	// the server refused.
	ErrUnauthorised = errors.New("signature refused: compare keys and clocks")
	// ErrTooLarge is wrapped by the error for an answer larger than the client
	// accepts, or an event larger than the server sends.
	ErrTooLarge = errors.New("too large")
	// ErrResponse is wrapped by the error for a response that is not one of
	// the protocol, was cut off, or does not parse.
	ErrResponse = errors.New("not a response of the replay protocol")
)

// Error says which request failed, and why. Its cause may be one of the errors
// above, [replay.ErrNotRetained], [replay.ErrNotAssigned] or a network error.
type Error struct {
	URL    string
	Status int    // 0 if there was no response
	Code   string // of the protocol, "" if the response had none
	Err    error
}

// Error names the URL, the status and the cause.
func (e *Error) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("httpreplay: GET %s: %v", e.URL, e.Err)
	}
	return fmt.Sprintf("httpreplay: GET %s: status %d: %v", e.URL, e.Status, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
