package dispatcher

import (
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/lockkeys"
)

// Errors of construction and submission.
var (
	// ErrConfig is wrapped by what New returns for a configuration that
	// cannot work; the text names every problem.
	ErrConfig = errors.New("dispatcher: bad configuration")
	// ErrClosed is returned by submissions after Shutdown or Close, and is
	// the result of messages that a shutdown left unfinished.
	ErrClosed = errors.New("dispatcher: closed")
	// ErrStopped is wrapped by what submissions return after a message failed
	// under the policy Stop. The cause is wrapped as well.
	ErrStopped = errors.New("dispatcher: stopped by a failed message")
	// ErrFull is returned by TrySubmit when the queue is full.
	ErrFull = errors.New("dispatcher: queue full: wait, or use Submit, which does")
	// ErrTooManyParked is returned for a message that conflicts with what is
	// parked, or behind that, once Config.MaxParked is reached.
	ErrTooManyParked = errors.New("dispatcher: MaxParked messages are parked or behind parked ones, and this one would go behind them: Resume, Skip or Drop what is parked, and submit it again")
	// ErrTooLarge is returned for a message that is larger on its own than
	// Config.MaxPendingBytes.
	ErrTooLarge = errors.New("dispatcher: message larger than MaxPendingBytes")
	// ErrNested is returned by Do, Drain, Shutdown, Close, Ticket.Wait, and by
	// a Submit that would have to wait, where they would wait for themselves:
	// when called with the context of a handler, or of a call of DeadLetter, of
	// the same dispatcher whose message has not ended; and but for Do and
	// Ticket.Wait with any context, on a goroutine on which the dispatcher
	// calls a handler, DeadLetter, FailureFor, a completion callback or the
	// observer. A handler that waits for others while it holds keys and a
	// worker can wait for ever. That cannot be told for a goroutine that a
	// handler has started and waits for, if it has another context: it must not
	// wait for the dispatcher.
	ErrNested = errors.New("dispatcher: a handler or callback must not wait for its dispatcher: submit without waiting, widen the claim, or wait elsewhere")
)

// Errors that are results of messages.
var (
	// ErrTimeout is wrapped by the error of an attempt that failed after
	// Config.Timeout.
	ErrTimeout = errors.New("dispatcher: handler took longer than Timeout")
	// ErrGoexit is the error of an attempt that ended in runtime.Goexit, as
	// t.FailNow does.
	ErrGoexit = errors.New("dispatcher: handler called runtime.Goexit")
	// ErrSkipped is wrapped, with the error that parked the message, by the
	// result of a message that an operator gave up with Skip or Drop.
	ErrSkipped = errors.New("dispatcher: given up by an operator")
)

// errResults is the error of a BatchHandler that broke its contract.
var errResults = errors.New("dispatcher: BatchHandler must give nil, or one result for each message")

// Errors of operating on keys and parked messages.
var (
	// ErrNotParked is returned by Resume, Skip and Drop for an id that is not
	// among the parked messages.
	ErrNotParked = errors.New("dispatcher: no parked message with this id")
	// ErrNoHandler is returned by Release for a context that is not one of a
	// handler that is running.
	ErrNoHandler = errors.New("dispatcher: not the context of a running handler")
	// ErrStrictLocking is returned by Release where Config.StrictLocking is
	// set.
	ErrStrictLocking = errors.New("dispatcher: keys are kept until the message has ended (StrictLocking): what its handler does is final only after it has returned")
	// ErrNotHeld is wrapped by what Release returns for a key that the
	// message's claim does not have.
	ErrNotHeld = errors.New("dispatcher: key is not one of the message's claim")
)

// KeyFuncError is the error of a message whose keys could not be derived. It
// counts as permanent: the message is not attempted.
type KeyFuncError struct{ Err error }

// Error says that it is about deriving keys, and why that failed.
func (e *KeyFuncError) Error() string { return fmt.Sprintf("dispatcher: deriving keys: %v", e.Err) }

// Unwrap gives the error of the key function, or its [*PanicError].
func (e *KeyFuncError) Unwrap() error { return e.Err }

// PanicError is the error of an attempt that panicked.
type PanicError struct {
	Value any    // what was given to panic
	Stack []byte // of the goroutine that panicked
}

// Error includes the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("dispatcher: panic: %v\n%s", e.Value, e.Stack)
}

// Unwrap gives the value of the panic if that was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// PermanentError marks an error that trying again will not mend.
type PermanentError struct{ Err error }

// Permanent marks an error, so that the message is not tried again: its
// failure policy applies at once. Permanent(nil) is nil. The mark is found
// through wrapping.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{err}
}

// Error is that of the error that was marked.
func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap gives the error that was marked.
func (e *PermanentError) Unwrap() error { return e.Err }

// IsPermanent tells whether err, or an error that it wraps, was marked by
// [Permanent].
func IsPermanent(err error) bool {
	_, ok := errors.AsType[*PermanentError](err)
	return ok
}

// WidenError asks for more keys.
type WidenError struct{ Requests []lockkeys.Request }

// Widen returns an error by which a handler asks for more keys than its
// message claimed, having had no effect so far. The message gives its keys
// back, takes the wider claim, its own and these requests, in one step, and
// runs again. It keeps its place in the order of arrival: it waits for
// earlier messages and for those already running, and later ones that
// conflict wait for it. That is not counted as an attempt.
//
// Since a message that waits for its wider claim holds nothing back that is
// not behind it in the order, two messages that widen towards each other do
// not block each other: the earlier one goes first.
func Widen(requests ...lockkeys.Request) error { return &WidenError{requests} }

// Error names the requests.
func (e *WidenError) Error() string {
	return fmt.Sprintf("dispatcher: handler needs more keys: %v", e.Requests)
}

// HandlerError is the result of a message that failed for good.
type HandlerError struct {
	ID       uint64 // the message's arrival number
	Attempts int    // how often it was tried
	Err      error  // of the last attempt
}

// Error names the message, its attempts and the last error.
func (e *HandlerError) Error() string {
	return fmt.Sprintf("dispatcher: message %d failed after %d attempts: %v", e.ID, e.Attempts, e.Err)
}

// Unwrap gives the error of the last attempt.
func (e *HandlerError) Unwrap() error { return e.Err }
