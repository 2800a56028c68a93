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

// Handler does the work of one message. While it runs, no other handler runs
// whose keys conflict with those of m, so it can be written as if it were the
// only thread. An error is a failed attempt; see [Permanent] and [Widen] for
// errors that steer what comes next, and [Release] for giving a key back
// early. A panic or runtime.Goexit is a failed attempt too.
//
// The context ends when [Config.Timeout] has passed or when a shutdown nears
// its deadline. It is this attempt's alone: once the handler has returned, it
// does nothing any more, and what goes on with it waits for others like anybody.
type Handler[M any] func(ctx context.Context, m M) error

// BatchHandler does the work of several messages that all have the same
// exclusive keys, in the order given, so that one database transaction serves
// many. It returns nil if all succeeded, else one result for each message.
//
// Results count up to the first error. The message of that one has failed,
// for this attempt or for good, and those after it are run again as if they
// had not been in the batch: the handler must stop at the first error, or
// undo what it did after it. A handler that works in one transaction meets
// this by itself, with FailAll(err, len(ms)) when that is rolled back.
//
// ms is valid until the handler returns: its memory is used again for the next
// batch, so a handler that keeps messages for longer copies them. The results
// stay the handler's.
type BatchHandler[M any] func(ctx context.Context, ms []M) []error

// FailAll returns n results that are all err: what a [BatchHandler] returns
// when its transaction failed as a whole.
func FailAll(err error, n int) []error {
	results := make([]error, n)
	for i := range results {
		results[i] = err
	}
	return results
}

// KeyFunc adds to claim the resources that m needs. It is called once for
// each message, in Submit, on the submitter's goroutine, before any lock is
// taken; it may be called from many goroutines at once. claim is empty and valid
// until the function returns; it is used again for others and must not be kept
// or copied. A claim left empty
// conflicts with nothing. An error or a panic fails the message by its
// failure policy, with a [*KeyFuncError] and without an attempt.
type KeyFunc[M any] func(m M, claim *lockkeys.Claim) error

// Config configures a [Dispatcher]. Keys and one of Handler and BatchHandler
// are required; the zero value of every other field means its default.
type Config[M any] struct {
	// Keys derives a message's lock keys.
	Keys KeyFunc[M]

	// Handler is called for each message, or else
	Handler Handler[M]
	// BatchHandler for up to MaxBatch of them at a time.
	BatchHandler BatchHandler[M]
	// MaxBatch is the most messages given to one call of BatchHandler.
	// Default: 64.
	MaxBatch int

	// Workers is the number of goroutines that run handlers. Handlers that
	// wait for other services want more of them than there are processors.
	// Default: 8.
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
	// Size gives a message's size in bytes; required with MaxPendingBytes. It
	// is called like Keys. A message on which it panics is refused, with the
	// [*PanicError].
	Size func(m M) int64

	// MaxAttempts is how often a message is tried, the first time included.
	// Default: 1, no retries.
	MaxAttempts int
	// Backoff is how long to wait between attempts. The keys stay held
	// meanwhile, but no worker does.
	Backoff Backoff
	// Timeout bounds one attempt: its context ends then. The keys stay held
	// until the handler has returned, however long that takes, since nothing
	// that conflicts may overlap it. Default: 0, no bound.
	Timeout time.Duration

	// Failure is what happens to a message whose attempts are used up or
	// whose error is permanent. Default: DeadLetter.
	Failure FailurePolicy
	// FailureFor, if set, is asked in place of Failure.
	FailureFor func(m M, err error) FailurePolicy
	// DeadLetter, if set, is given the messages that fail under the policy
	// DeadLetter, before their keys are released. If it gives an error itself
	// the message is parked. It runs on a worker and must return when its
	// context ends. Default: nil; such messages are logged, unless they have a
	// callback or a ticket that is told of the error.
	DeadLetter func(ctx context.Context, m M, err error) error
	// MaxParked bounds the messages that are parked or queued behind a parked
	// one and therefore no longer count as pending; what is resumed then counts
	// here until it has ended. (With MaxPendingBytes, the same number of bytes
	// bounds them once more.) When it is reached, submissions of messages that
	// conflict with what is parked, or is behind that, are refused with
	// [ErrTooManyParked], which is logged once and counted in [Stats]; all
	// others go on. What is parked, or gets behind a parked message, all the
	// same, since it was accepted before, keeps its keys closed and its place
	// in the order and goes on counting as pending, though it never uses the
	// look-ahead window. So there are never more than MaxPending + MaxParked
	// messages in all; only when those beyond MaxParked are as many as
	// MaxPending do unrelated submissions wait. Nothing is lost, and nothing
	// goes before what it was behind. Default: 65,536.
	MaxParked int

	// StrictLocking keeps a message's keys, all of them, until it has ended:
	// [Release] is refused with [ErrStrictLocking]. Set it where what a handler
	// does becomes visible or durable only after it has returned, as in a
	// transaction that somebody else commits: given back before, a key would
	// let the next message work with what may still come to nothing. In the
	// words of databases that is strict two-phase locking. Default: false.
	StrictLocking bool

	// CancelGrace is how long before its deadline a shutdown ends the
	// contexts of handlers that still run; at most half of the time given to
	// the shutdown. Default: 500 ms.
	CancelGrace time.Duration

	// Observer, if set, is told of all that happens; see [Observer].
	Observer Observer[M]
	// Logger is told what an operator should know: messages that failed and
	// that nobody else is told of, parked messages, a stop. Default:
	// slog.Default(). A record on which it panics is written to standard error
	// instead.
	Logger *slog.Logger
}

// Backoff says how long to wait before each further attempt: Initial, and
// then Multiplier times as long each time, up to Max; spread at random by
// Jitter to either side.
type Backoff struct {
	Initial    time.Duration // Default: 100 ms.
	Max        time.Duration // Default: 30 s.
	Multiplier float64       // At least 1. Default: 2.
	// Jitter is a share of the delay, from 0 to 1; negative for none.
	// Default: 0.2.
	Jitter float64
}

// Policy decides what may start while the head of the queue is blocked. Under
// every policy, conflicting messages run in arrival order. The zero Policy is
// LookAhead(4096).
type Policy struct{ window int } // the window + 1; 0 for the default

// HeadOnly is the policy of the paper that the method comes from, DOI
// 10.35330/1991-6639-2024-26-2-34-43: only the head of the queue is ever
// considered, so a blocked head holds up what is behind it, related or not.
// The paper's list of blocked keys is that part of the head's claim whose
// places in the set wait; the head starts when none is left.
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

// FailurePolicy is what happens to a message that failed for good.
type FailurePolicy uint8

const (
	// DeadLetter gives the message to Config.DeadLetter and releases its
	// keys: related messages go on without it.
	DeadLetter FailurePolicy = iota
	// Park keeps the message's keys closed. Related messages queue behind it
	// in order, all others go on, until an operator calls Resume, Skip or
	// Drop. See [Dispatcher.Parked].
	Park
	// Stop stops the dispatcher: nothing starts any more and submissions are
	// refused with an error that wraps this one. The message stays with what
	// [Dispatcher.Shutdown] returns as unfinished.
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
	settings.Default(&c.Workers, 8)
	settings.Default(&c.MaxPending, 1<<16)
	settings.Default(&c.MaxAttempts, 1)
	settings.Default(&c.MaxParked, 1<<16)
	settings.Default(&c.CancelGrace, 500*time.Millisecond)
	settings.Default(&c.Backoff.Initial, 100*time.Millisecond)
	settings.Default(&c.Backoff.Max, max(30*time.Second, c.Backoff.Initial))
	settings.Default(&c.Backoff.Multiplier, 2)
	settings.Default(&c.Backoff.Jitter, 0.2)
	c.Backoff.Jitter = max(c.Backoff.Jitter, 0)
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
	p.Add(c.MaxBatch < 1, "MaxBatch is %d: it must be at least 1", c.MaxBatch)
	p.Add(c.Workers < 1, "Workers is %d: it must be at least 1", c.Workers)
	p.Add(c.MaxPending < 1, "MaxPending is %d: it must be at least 1", c.MaxPending)
	p.Add(c.MaxPendingBytes < 0, "MaxPendingBytes is %d: it must not be negative", c.MaxPendingBytes)
	p.Add(c.MaxPendingBytes > 0 && c.Size == nil, "Size is nil: MaxPendingBytes needs it")
	p.Add(c.MaxAttempts < 1, "MaxAttempts is %d: it must be at least 1", c.MaxAttempts)
	p.Add(c.Timeout < 0, "Timeout is %v: it must not be negative", c.Timeout)
	p.Add(c.Failure > Stop, "Failure is %v: use DeadLetter, Park or Stop", c.Failure)
	p.Add(c.MaxParked < 1, "MaxParked is %d: it must be at least 1", c.MaxParked)
	p.Add(c.CancelGrace < 0, "CancelGrace is %v: it must not be negative", c.CancelGrace)
	p.Add(c.Backoff.Initial < 0, "Backoff.Initial is %v: it must not be negative", c.Backoff.Initial)
	p.Add(c.Backoff.Max < c.Backoff.Initial, "Backoff.Max is %v: it must not be less than Initial, %v", c.Backoff.Max, c.Backoff.Initial)
	p.Add(!(c.Backoff.Multiplier >= 1), "Backoff.Multiplier is %v: it must be at least 1", c.Backoff.Multiplier)
	p.Add(!(c.Backoff.Jitter <= 1), "Backoff.Jitter is %v: it must be at most 1", c.Backoff.Jitter)
	return p.Err(ErrConfig)
}
