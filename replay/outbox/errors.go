package outbox

import (
	"errors"

	"github.com/interlock-go/interlock/internal/sqldb"
)

// Errors of New and NewRelay.
var (
	// ErrConfig is wrapped by the errors for what cannot work; the text names
	// every problem.
	ErrConfig = errors.New("outbox: bad configuration")
	// ErrRunning is returned by Run of a relay that runs already.
	ErrRunning = errors.New("outbox: this relay runs already: make another one")
)

// ErrPooled is wrapped by the error of a relay behind a pooler that gives a
// session of PostgreSQL to many connections in turn: there its lock would stay
// with others, and two relays could be active. Open the relay's database
// directly, or by way of a pooler with pool_mode=session.
var ErrPooled = sqldb.ErrPooled

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
	// ErrDuplicateID is wrapped by the error for an event that is there
	// already, with the same ID, streams, type and payload, and still kept. It
	// makes a repeated command harmless that names its event.
	ErrDuplicateID = errors.New("outbox: this event is there already")
	// ErrOtherEvent is wrapped by the error for an event whose ID another one
	// has that is still kept: its streams or its content are different, so
	// this one is not there. An ID has to be unique in the whole outbox.
	ErrOtherEvent = errors.New("outbox: another event has this ID: give this one an ID of its own")
)

// ErrConflict is wrapped by the errors of Enqueue and Lock when another
// transaction was in the way: both waited for each other's streams, or the order
// of the two cannot be told, or the wait took longer than the database allows.
// Nothing is lost. What ended the wait does not end what led to it while the
// transaction keeps the streams that it has.
var ErrConflict = errors.New("outbox: another transaction was in the way: roll this one back and run it again from its beginning; " +
	"if it enqueues several events, take all their streams with Lock first")

// ErrNotParked is wrapped by the errors of Resume and Skip for an event that is
// not parked, or not any more.
var ErrNotParked = errors.New("outbox: no parked event with this ID: see Parked")

// ErrRange is wrapped by the error of Fetch for a range that is none.
var ErrRange = errors.New("outbox: not a range of numbers")
