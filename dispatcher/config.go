package dispatcher

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/lockkeys"
)

// Handler processes one message. While it runs, no handler runs whose keys
// conflict with those of m, so it can be written as single-threaded code. An
// error is a failed attempt; see [Permanent] and [Widen] for errors with a
// special meaning, and [Release] for releasing a key early. A panic or
// runtime.Goexit is a failed attempt too.
//
// The context has the values of the submitter's context, but not its
// cancellation or deadline. It ends when [Config.Timeout] has passed or when a
// shutdown nears its deadline. It belongs to this attempt alone: after that has
// ended, [Release] and the like refuse it.
type Handler[M any] func(ctx context.Context, m M) error

// BatchHandler processes a chain of messages, in the given order, for example in
// one database transaction. Each of them conflicts with the one before it and waits
// for nothing but the others, as deposits to one account do. It returns nil if all
// succeeded, else one result for each message.
//
// Results count up to the first error. Its message has failed, for this attempt
// or for good, and those after it are run again as if they had not been in the
// batch: the handler must stop at the first error, or undo what it did after
// it. A handler with one transaction does so by rolling it back and returning
// FailAll(err, len(ms)).
//
// The context has the values of the context that the first message was
// submitted with.
//
// ms is the handler's, also when that has returned. The result slice is not kept.
type BatchHandler[M any] func(ctx context.Context, ms []M) []error

// Together runs the handlers of a chain of messages as one unit of work, such as a
// database transaction, which makes the work on a much-used key cheaper. A chain is
// a message and those that wait for nothing but the messages of the chain, each in
// conflict with the one before it.
//
// Together must call run once, with ctx or a context derived from it, whose values
// the handlers' contexts then have. run calls the handlers one after the other, and
// returns an error if one of them failed or the work has to be undone for another
// reason. If it returns nil, Together makes the work final and returns nil;
// otherwise, or if that fails, it undoes the work and returns an error. It must not
// return before run has, else the chain counts as undone:
//
//	func(ctx context.Context, run func(ctx context.Context) error) error {
//		tx, err := db.BeginTx(ctx, nil)
//		if err != nil {
//			return err
//		}
//		defer tx.Rollback()
//		if err := run(withTx(ctx, tx)); err != nil {
//			return err
//		}
//		return tx.Commit()
//	}
//
// Messages end, and release their keys, when Together has returned nil. After an
// error, or a panic, none of them has made an attempt, and those whose handlers ran
// run again, each by itself and without Together, in order. So a handler may be
// called more than once without an error of its own, and must have no effects
// outside the unit of work. Messages that are tried again run by themselves, too.
// In a chain, [Release] and [Hold] are refused with [ErrNoHandler]; a handler that
// returns that error, or [Widen], is called again by itself, where they work. One
// that returns [ErrAlone] before it has done anything ends the chain, and undoes
// nothing.
type Together func(ctx context.Context, run func(ctx context.Context) error) error

// FailAll returns n results that are all err, for a [BatchHandler] whose
// transaction failed as a whole.
func FailAll(err error, n int) []error {
	results := make([]error, n)
	for i := range results {
		results[i] = err
	}
	return results
}

// KeyFunc adds to claim the resources that m needs. It is called once for each
// message, in Submit, on the submitter's goroutine, before any lock is taken;
// it may be called from many goroutines at once. claim is empty and valid until
// the function returns; it is reused and must not be kept or copied. A claim
// left empty conflicts with nothing. An error or a panic fails the message by
// its failure policy, with a [*KeyFuncError] and without an attempt.
type KeyFunc[M any] func(m M, claim *lockkeys.Claim) error

// Config configures a [Dispatcher]. Keys and one of Handler and BatchHandler
// are required; the zero value of every other field means its default.
type Config[M any] struct {
	// Keys derives a message's lock keys.
	Keys KeyFunc[M]

	// Name, if set, returns the name of a message in errors, in log records,
	// and in the results of Snapshot, Parked and Shutdown. It is called when a
	// name is needed, from any goroutine, and must be quick. Default: nil;
	// messages are identified by their claims alone.
	Name func(m M) string

	// Handler is called for each message, or else
	Handler Handler[M]
	// BatchHandler for up to MaxBatch of them at a time.
	BatchHandler BatchHandler[M]
	// Together, if set with Handler, runs the handlers of a chain of messages in
	// one unit of work; see [Together]. Default: nil; each message by itself.
	Together Together
	// MaxBatch is the most messages in one call of BatchHandler or Together.
	// Default: 64.
	MaxBatch int
	// ChainTime is how long a chain goes on: once its handlers have run for this
	// long, the next of its messages is left for later. Its messages, and those
	// that wait for them, wait for the end of all of it. Default: 10 ms.
	ChainTime time.Duration

	// Workers is the number of goroutines that run handlers. Handlers that wait
	// for other services need more of them than there are processors. Default:
	// 8.
	Workers int
	// Policy decides what may start while the head of the queue is blocked.
	// Default: LookAhead(4096).
	Policy Policy

	// MaxPending bounds the messages accepted and not yet ended, other than
	// those that count against MaxParked. A submission that would exceed it
	// waits or is refused. Default: 65,536.
	MaxPending int
	// MaxPendingBytes bounds the same messages by the sum of their sizes. One
	// message that is larger on its own is refused with ErrTooLarge.
	// Default: 0, no bound.
	MaxPendingBytes int64
	// Size returns a message's size in bytes; required with MaxPendingBytes. It
	// is called like Keys. A message on which it panics is refused, with the
	// [*PanicError].
	Size func(m M) int64

	// MaxAttempts is how often a message is tried, the first time included.
	// Default: 1, no retries.
	MaxAttempts int
	// Backoff is the wait between attempts, during which the message keeps its
	// keys but no worker. Default: from 100 ms to 30 s.
	Backoff Backoff
	// Timeout bounds one attempt: its context ends then. The keys stay held
	// until the handler has returned, however long that takes, since no
	// conflicting handler may overlap it. Default: 0, no bound.
	Timeout time.Duration

	// HoldTimeout bounds how long a message is held after its handler has
	// returned; see [Hold]. After that, its attempt fails with
	// [ErrHoldTimeout], so that no keys are kept for ever. Default: 5 minutes.
	HoldTimeout time.Duration

	// Failure is the policy for a message whose attempts are used up or whose
	// error is permanent. Default: DeadLetter.
	Failure FailurePolicy
	// FailureFor, if set, chooses the policy for each failed message; 0 means
	// Failure, and so do a panic and what is no policy, which are logged.
	FailureFor func(m M, err error) FailurePolicy
	// DeadLetter, if set, is called with the messages that fail under the
	// policy DeadLetter, before their keys are released. Its context is like a
	// handler's, with the values of the submitter's. If it returns an error,
	// the message is parked. It runs on a worker and must return when its
	// context ends. Default: nil; such messages are logged, unless they have a
	// callback or a ticket, which gets the error.
	DeadLetter func(ctx context.Context, m M, err error) error
	// MaxParked bounds the messages that are parked or queued behind a parked
	// one and therefore do not count as pending; resumed ones keep counting
	// here until they have ended. (With MaxPendingBytes, the same number of
	// bytes bounds them as well.) When it is reached, submissions that conflict
	// with a parked message, or with one behind it, are refused with
	// [ErrTooManyParked], which is logged once and counted in [Stats]; all
	// others go on. Messages accepted before that are parked, or go behind a
	// parked one, later all the same: they keep their keys and their place in
	// the order and go on counting as pending, but never use the look-ahead
	// window. So there are never more than MaxPending + MaxParked messages in
	// all, and unrelated submissions wait only when as many as MaxPending are
	// beyond MaxParked. No message is lost or overtakes one that it conflicts
	// with. Default: 65,536.
	MaxParked int

	// StrictLocking keeps all keys of a message until it has ended, which is
	// strict two-phase locking: [Release] is refused with [ErrStrictLocking], and
	// so is [Hold]. Set it where the effect of a handler becomes durable only after
	// it has returned, as in a transaction that is committed elsewhere: a key
	// released earlier would let the next message build on an effect that may still
	// be rolled back. Default: false.
	StrictLocking bool

	// Strict is for tests: if [Holds] or [Touch] has failed in an attempt, the
	// message fails for good with that error when the attempt ends, even if the
	// handler ignores it, unless the handler returns [Widen]. Default: false.
	Strict bool
	// Touched is for tests: it is told of each call of [Touch] and [TouchData], on
	// the goroutine that calls, before that goes on. It may be called by several at
	// once, and its panic is the handler's. Default: nil.
	Touched func(ctx context.Context, a Access)

	// CancelGrace is how long before its deadline a shutdown ends the contexts
	// of handlers that still run; it is at most half of the time that the
	// shutdown has. Default: 500 ms.
	CancelGrace time.Duration

	// Observer, if set, receives everything that happens to messages, in order. It
	// is called on one goroutine of the dispatcher, never under its mutex. A slow
	// observer makes the dispatcher wait once 4,096 events are outstanding.
	// Shutdown returns after the last event was observed, or at its deadline. An
	// observer must not wait for the dispatcher: methods that would are refused
	// with [ErrNested], except Do and Ticket.Wait, which can wait for ever there.
	// Its panics are logged.
	Observer func(e Event[M])
	// Measure, if set, is told how long messages took. There are two kinds of
	// measurements, which must not be mixed:
	//
	//   - One of MeasureOneIn messages, picked at random when it is submitted, is
	//     measured with all its times, whatever becomes of it. So these have the same
	//     distribution as all messages have; their number, times MeasureOneIn, is an
	//     estimate, and Stats has exact counts.
	//   - Every message that had to wait for its keys, was held, tried again or parked,
	//     or has failed, is measured without these times. Their number, Waited and
	//     Held are complete: what is not measured has not waited, nor been held.
	//
	// It is called on a worker when a message has its result or is to be parked,
	// after completion callbacks and before its keys are released; so for a message
	// that is resumed, once more, with what it has Waited, was Held and Handled since.
	// Messages that an operator or a shutdown gives up
	// are not measured then. It must be quick, may be called by several workers at
	// once, and must not wait for the dispatcher, as in OnDone. Its panics are logged.
	// Default: nil, which costs nothing.
	Measure func(m Measurement)
	// MeasureOneIn is the number of messages of which one is part of the sample; 1
	// is all of them. Default: 32.
	MeasureOneIn int
	// Logger receives what an operator should know: failed messages that are
	// reported to nobody else, parked messages, a stop. Default:
	// slog.Default(). If it panics on a record, that is written to standard
	// error instead.
	Logger *slog.Logger
}

// Policy decides what may start while the head of the queue is blocked. Under
// every policy, conflicting messages run in arrival order. The zero Policy is
// LookAhead(4096).
type Policy struct{ window int } // the window + 1; 0 for the default

// HeadOnly is the policy of the paper that the method comes from, DOI
// 10.35330/1991-6639-2024-26-2-34-43: only the head of the queue is ever
// considered, so there is head-of-line blocking: a blocked head holds up
// everything behind it, related or not. The paper's list of blocked keys is the
// part of the head's claim that waits in the set; the head starts when none is
// left.
func HeadOnly() Policy { return Policy{1} }

// LookAhead lets a message start as soon as no earlier unfinished message
// conflicts with it, looking past up to window blocked ones. A window of 0 is
// the same as HeadOnly, and a negative one counts as 0.
func LookAhead(window int) Policy { return Policy{max(window, 0) + 1} }

// Window returns the look-ahead window: 0 for HeadOnly.
func (p Policy) Window() int {
	if p.window == 0 {
		return 4096
	}
	return p.window - 1
}

// String returns "head-only" or "look-ahead(N)".
func (p Policy) String() string {
	if p.Window() == 0 {
		return "head-only"
	}
	return fmt.Sprintf("look-ahead(%d)", p.Window())
}

// FailurePolicy is what happens to a message that failed for good. The zero
// value means the default of the setting.
type FailurePolicy uint8

const (
	// DeadLetter passes the message to Config.DeadLetter and releases its keys:
	// related messages go on without it.
	DeadLetter FailurePolicy = iota + 1
	// Park keeps the message's keys closed. Related messages queue behind it
	// in order, all others go on, until an operator calls Resume, Skip or
	// Drop. See [Dispatcher.Parked].
	Park
	// Stop stops the dispatcher: nothing starts any more and submissions are
	// refused with an error that wraps this one. [Dispatcher.Shutdown] returns
	// the message as unfinished.
	Stop
)

// String returns "dead-letter", "park" or "stop".
func (p FailurePolicy) String() string {
	switch p {
	case DeadLetter:
		return "dead-letter"
	case Park:
		return "park"
	case Stop:
		return "stop"
	}
	return fmt.Sprintf("FailurePolicy(%d)", uint8(p))
}

func (c Config[M]) withDefaults() Config[M] {
	settings.Default(&c.MaxBatch, 64)
	settings.Default(&c.ChainTime, 10*time.Millisecond)
	settings.Default(&c.Workers, 8)
	settings.Default(&c.MaxPending, 1<<16)
	settings.Default(&c.MaxAttempts, 1)
	settings.Default(&c.Failure, DeadLetter)
	settings.Default(&c.HoldTimeout, 5*time.Minute)
	settings.Default(&c.MaxParked, 1<<16)
	settings.Default(&c.MeasureOneIn, 32)
	settings.Default(&c.CancelGrace, 500*time.Millisecond)
	c.Backoff = c.Backoff.WithDefaults(100*time.Millisecond, 30*time.Second)
	c.Logger = safelog.New(c.Logger)
	return c
}

// validate names every problem at once. It is called on a config with its
// defaults filled in.
func (c Config[M]) validate() error {
	var p settings.Problems
	p.Add(c.Keys == nil, "Keys is nil: set it to a function that names a message's keys")
	p.Add(c.Handler == nil && c.BatchHandler == nil, "Handler is nil: set it, or BatchHandler")
	p.Add(c.Handler != nil && c.BatchHandler != nil, "Handler and BatchHandler are both set: keep one")
	p.Add(c.BatchHandler != nil && c.Together != nil, "BatchHandler and Together are both set: Together is for Handler")
	p.Add(c.ChainTime < 0, "ChainTime is %v: it must not be negative", c.ChainTime)
	p.Add(c.MaxBatch < 1, "MaxBatch is %d: it must be at least 1", c.MaxBatch)
	p.Add(c.Workers < 1, "Workers is %d: it must be at least 1", c.Workers)
	p.Add(c.MaxPending < 1, "MaxPending is %d: it must be at least 1", c.MaxPending)
	p.Add(c.MaxPendingBytes < 0, "MaxPendingBytes is %d: it must not be negative", c.MaxPendingBytes)
	p.Add(c.MaxPendingBytes > 0 && c.Size == nil, "Size is nil: MaxPendingBytes needs it")
	p.Add(c.MaxAttempts < 1, "MaxAttempts is %d: it must be at least 1", c.MaxAttempts)
	p.Add(c.Timeout < 0, "Timeout is %v: it must not be negative", c.Timeout)
	p.Add(c.HoldTimeout < 0, "HoldTimeout is %v: it must not be negative", c.HoldTimeout)
	p.Add(c.Failure > Stop, "Failure is %v: use DeadLetter, Park or Stop", c.Failure)
	p.Add(c.MaxParked < 1, "MaxParked is %d: it must be at least 1", c.MaxParked)
	p.Add(c.MeasureOneIn < 1, "MeasureOneIn is %d: it must be at least 1", c.MeasureOneIn)
	p.Add(c.CancelGrace < 0, "CancelGrace is %v: it must not be negative", c.CancelGrace)
	backoff := c.Backoff.Validate()
	p.Add(backoff != nil, "%w", backoff)
	return p.Err(ErrConfig)
}
