package dispatcher

import (
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/lockkeys"
)

// Errors of construction and submission.
var (
	// ErrConfig is wrapped by the error of New for an invalid configuration;
	// the text names every problem.
	ErrConfig = errors.New("dispatcher: bad configuration")
	// ErrClosed is the error of submissions after Shutdown or Close, and the
	// result of messages that a shutdown left unfinished.
	ErrClosed = errors.New("dispatcher: closed: return the message to its source")
	// ErrStopped is wrapped, together with the cause, by the error of
	// submissions after a message failed under the policy Stop.
	ErrStopped = errors.New("dispatcher: stopped by a failed message; fix the cause and start a new dispatcher")
	// ErrFull is returned by TrySubmit when the queue is full.
	ErrFull = errors.New("dispatcher: queue full: wait, or use Submit, which does")
	// ErrTooManyParked is returned for a message that conflicts with a parked
	// one, or with one behind it, once Config.MaxParked is reached.
	ErrTooManyParked = errors.New("dispatcher: MaxParked messages are parked or behind parked ones, and this one would go behind them: Resume, Skip or Drop parked messages, and submit it again")
	// ErrTooLarge is returned for a message that is larger on its own than
	// Config.MaxPendingBytes.
	ErrTooLarge = errors.New("dispatcher: message larger than MaxPendingBytes: raise the bound, or split the message")
	// ErrNested is returned by Do, Drain, Shutdown, Close, Ticket.Wait, and by
	// a Submit that would have to wait, where they would wait for themselves: a
	// handler that waits for other messages while it holds keys and a worker
	// can wait for ever. That is when they are called with the context of a
	// handler, or of a call of DeadLetter, of the same dispatcher whose message
	// has not ended; and, except for Do and Ticket.Wait, with any context on a
	// goroutine on which the dispatcher calls a handler, DeadLetter,
	// FailureFor, a completion callback or the observer. It cannot be detected
	// on a goroutine that a handler has started and waits for, if that uses
	// another context: such a goroutine must not wait for the dispatcher.
	ErrNested = errors.New("dispatcher: a handler or callback must not wait for its dispatcher: submit without waiting, widen the claim, or wait elsewhere")
)

// Errors that are results of messages.
var (
	// ErrTimeout is wrapped by the error of an attempt that failed after
	// Config.Timeout.
	ErrTimeout = errors.New("dispatcher: handler took longer than Timeout")
	// ErrAlone, returned by a handler in a chain, see [Together], says that it has
	// done nothing yet, and is to run by itself: the chain ends before it. Outside
	// a chain it is an error like others.
	ErrAlone = errors.New("dispatcher: the message must run by itself, and not in a chain")
	// ErrHoldTimeout is wrapped by the error of an attempt whose message was held,
	// see [Hold], and not finished within Config.HoldTimeout.
	ErrHoldTimeout = errors.New("dispatcher: held message was not finished within HoldTimeout")
	// ErrGoexit is the error of an attempt that ended in runtime.Goexit, as
	// t.FailNow does.
	ErrGoexit = contain.ErrGoexit
	// ErrSkipped is wrapped, with the error that parked the message, by the
	// result of a message that an operator gave up with Skip or Drop.
	ErrSkipped = errors.New("dispatcher: given up by an operator")
)

// errResults is the error of a BatchHandler that broke its contract.
var errResults = errors.New("dispatcher: BatchHandler must return nil, or one result for each message")

// Errors of operating on keys and parked messages.
var (
	// ErrNotParked is returned by Resume, Skip and Drop for an id that is not
	// among the parked messages.
	ErrNotParked = errors.New("dispatcher: no parked message with this id: Parked lists them")
	// ErrNoHandler is wrapped by the errors of Release, Hold and Holds for a
	// context that is not that of a running handler.
	ErrNoHandler = errors.New("dispatcher: not the context of a running handler: pass the one that the handler was called with")
	// ErrStrictLocking is returned by Release, and wrapped by the error of Hold, if
	// Config.StrictLocking is set.
	ErrStrictLocking = errors.New("dispatcher: keys are kept until the message has ended (StrictLocking): what its handler does is final only after it has returned")
	// ErrNotHeld is wrapped by the error of Release for a key that the
	// message's claim does not have, and by that of Holds for one that it does
	// not cover.
	ErrNotHeld = errors.New("dispatcher: key is not part of the message's claim")
)

// KeyFuncError is the error of a message whose keys could not be derived. It
// counts as permanent: the message is not attempted.
type KeyFuncError struct{ Err error }

// Error says that the keys could not be derived, and why.
func (e *KeyFuncError) Error() string { return fmt.Sprintf("dispatcher: deriving keys: %v", e.Err) }

// Unwrap returns the error of the key function, or its [*PanicError].
func (e *KeyFuncError) Unwrap() error { return e.Err }

// PanicError is the error of an attempt that panicked, and of any other function
// of the caller's that did. It has the Value that was given to panic, which it
// wraps if that is an error, and the Stack of the goroutine that panicked; its text
// includes both.
type PanicError = contain.PanicError

// PermanentError marks an error that retrying cannot fix.
type PermanentError struct{ Err error }

// Permanent marks an error that retrying cannot fix: the message is not tried
// again, and its failure policy applies at once. Permanent(nil) is nil. The
// mark is found in wrapped errors too.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{err}
}

// Error returns the text of the marked error.
func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap returns the marked error.
func (e *PermanentError) Unwrap() error { return e.Err }

// IsPermanent reports whether err, or an error that it wraps, was marked by
// [Permanent].
func IsPermanent(err error) bool {
	_, ok := errors.AsType[*PermanentError](err)
	return ok
}

// WidenError asks for more keys.
type WidenError struct{ Requests []lockkeys.Request }

// Widen returns an error by which a handler that has had no effect so far asks
// for more keys than its message claimed. The message releases its keys,
// acquires the wider claim (its own and these requests) in one step, and runs
// again. It keeps its place in the order of arrival: it waits for earlier
// messages and for those already running, and later conflicting ones wait for
// it. This does not count as an attempt.
//
// A message that waits for its wider claim blocks only messages behind it in
// the order, so two that widen towards each other do not deadlock: the earlier
// one goes first.
func Widen(requests ...lockkeys.Request) error { return &WidenError{requests} }

// Error names the requests.
func (e *WidenError) Error() string {
	return fmt.Sprintf("dispatcher: handler needs more keys: %v", e.Requests)
}

// HandlerError is the result of a message that failed for good.
type HandlerError struct {
	ID       uint64             // the message's arrival number
	Name     string             // from Config.Name
	Claim    []lockkeys.Request // of the message
	Attempts int                // number of attempts
	Err      error              // of the last attempt
}

// Error has the message's name and claim, the number of attempts and the last
// error.
func (e *HandlerError) Error() string {
	return fmt.Sprintf("dispatcher: message %s failed after %d attempts: %v", describe(e.Name, e.Claim), e.Attempts, e.Err)
}

// Unwrap returns the error of the last attempt.
func (e *HandlerError) Unwrap() error { return e.Err }
