package outbox

import "errors"

// Errors of New and NewRelay.
var (
	// ErrConfig is wrapped by the errors for what cannot work; the text names
	// every problem.
	ErrConfig = errors.New("outbox: bad configuration")
	// ErrRunning is returned by Run of a relay that runs already.
	ErrRunning = errors.New("outbox: this relay runs already: make another one")
)

// Errors of Enqueue. What is wrong with the event itself is told by an
// [*ordering.EventError].
var (
	// ErrNoTx is returned for a nil transaction.
	ErrNoTx = errors.New("outbox: no transaction: pass the one that makes the event true")
	// ErrNoEvent is returned for a nil event.
	ErrNoEvent = errors.New("outbox: no event")
	// ErrNumbered is wrapped by the error for an event with a number: the
	// outbox gives them.
	ErrNumbered = errors.New("outbox: the event has a number already: leave Number at 0")
	// ErrEnded is wrapped by the error for an event on a stream whose last
	// event, one with End, was enqueued before.
	ErrEnded = errors.New("outbox: stream has ended")
	// ErrDuplicateID is wrapped by the error for an event whose ID another
	// event has that is still kept. It makes a repeated command harmless that
	// names its event.
	ErrDuplicateID = errors.New("outbox: an event with this ID is there already")
)

// ErrNotParked is wrapped by the errors of Resume and Skip for an event that is
// not parked, or not any more.
var ErrNotParked = errors.New("outbox: no parked event with this ID: see Parked")

// ErrRange is wrapped by the error of Fetch for a range that is none.
var ErrRange = errors.New("outbox: not a range of numbers")
