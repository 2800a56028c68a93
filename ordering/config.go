package ordering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/lockkeys"
)

// Config configures a [Sequencer]. Store and Handler are required; the zero
// value of every other field means its default.
type Config struct {
	// Store keeps the numbers that are done. It stays the caller's, who
	// closes it after the sequencer.
	Store Store
	// Handler does the work of an event.
	Handler Handler
	// Keys derives the lock keys of an event. If it gives an error or panics,
	// the event counts as failed for good. Default: the event's streams, each
	// exclusively, so that a stream's events run one after the other.
	Keys func(e *Event, claim *lockkeys.Claim) error
	// Dispatcher says how handlers run: workers, policy, bounds, attempts and
	// back-off, timeout, observer and logger. Here the default for Workers is
	// 64, since handlers mostly wait for a store, and those that wait for the
	// same flush of a disk share it (a store on PostgreSQL should have a
	// connection for each: New logs a warning if not); for MaxAttempts it is 5. Keys, Handler,
	// BatchHandler, Failure, FailureFor and DeadLetter are the sequencer's and
	// must not be set. StrictLocking is always on: an event's keys are kept
	// until its numbers are done, which is after its handler has returned.
	Dispatcher dispatcher.Config[Job]

	// Failure is what happens when an event's attempts are used up or its
	// error is permanent, see [dispatcher.Permanent]. Default: Park.
	Failure Policy
	// FailureFor, if set, is asked in place of Failure, once for each failure;
	// if it panics, Failure it is. Default: Stop for errors that are a
	// [*StoreError], Failure for all others.
	FailureFor func(e *Event, err error) Policy
	// DeadLetter, if set, is given each event that failed under the policy
	// Skip, after that was recorded and before anything that waited for it; and
	// each that its source was told is held, and that can never run, before the
	// store forgets it, which after a crash may be more than once. An error or a
	// panic of it is logged.
	DeadLetter func(ctx context.Context, e *Event, err error) error

	// Owns tells which streams are this sequencer's, where several share a
	// store: what is held of others, or parked for a gap, is left to them. It
	// does not restrict what may be offered. It is called by several goroutines
	// at once. Default: all.
	Owns func(stream lockkeys.Key) bool

	// GapTimeout is how long an event waits for those before it until they
	// are asked for, called T_gap in the paper; when too many wait, they are
	// asked for at once, but GapPolicy applies no sooner. Default: 2 s.
	GapTimeout time.Duration
	// Replayer is asked for what did not come. Default: none, so that a gap
	// is a case for GapPolicy after GapTimeout.
	Replayer Replayer
	// GapPolicy is what happens to a stream when the replayer has not got
	// what is missing. Default: Park. Numbers of which the replayer's source
	// says that they never existed are skipped, with a record, in any case.
	GapPolicy Policy
	// MaxSkip is the most numbers that are skipped at once, by GapPolicy, by
	// [Sequencer.Skip], or since the replayer's source says that they never
	// existed: a number that was spoiled on its way must not make all numbers
	// before it done, so that good events are taken for duplicates. A stream with
	// a larger gap is parked; see [Sequencer.SkipTo]. Default: 1,000.
	MaxSkip int

	// MaxEarly bounds the events of one stream that wait in memory for
	// earlier ones. When one more comes, the store takes them all, and what
	// is missing is asked for at once. Default: 1024.
	MaxEarly int
	// MaxEarlyTotal bounds the same for all streams together, with the copies
	// that came of such events; [Sequencer.LimitEarly] lowers it. Default:
	// 65,536.
	MaxEarlyTotal int
	// MaxEarlyBytes bounds them by what they take in memory: [Event.Size], and
	// about 1.5 KiB for each of their positions, whose streams are in memory as
	// long. It bounds likewise what is on its way into the store: beyond it
	// offers wait. Default: 256 MiB.
	MaxEarlyBytes int64

	// MaxActive is how many streams are kept in memory though nothing of them
	// is on its way and that are not parked; the least recently used leave
	// first, and come back from the store. Default: 100,000.
	MaxActive int
	// IdleTTL is how long a stream stays in memory with nothing on its way, or
	// a parking with its streams; kept to within a quarter. Default: 10 minutes.
	IdleTTL time.Duration

	// Retention is how long job states are kept; negative for ever. Numbers
	// are known for ever. But when a job state is gone, nothing tells any more
	// whether an event with the same numbers is the one that was done, and it is
	// taken for a duplicate, which [Stats] counts. Default: 30 days.
	Retention time.Duration

	// Observer, if set, is told of everything that is out of the ordinary, by
	// several goroutines at once. The sequencer waits for it, so it should be
	// quick, and must not call the sequencer. A panic of it is logged.
	Observer func(Notice)
	// Logger is told what an operator should know: gaps that stay open,
	// parked streams, contradictions, a stop. Default: slog.Default().
	Logger *slog.Logger
}

// Policy is what happens when an event failed for good, or did not come.
type Policy uint8

const (
	// Park closes the event's streams from its numbers on. Their later
	// events are held by the store, all others go on, until an operator calls
	// Resume, Skip or Drop, or what was missing comes after all.
	Park Policy = iota
	// Skip makes the numbers done without the event's effect, with a job
	// state that says so; the streams go on.
	Skip
	// Stop lets no handler start any more and refuses offers.
	Stop
)

// String returns "park", "skip" or "stop".
func (p Policy) String() string {
	switch p {
	case Park:
		return "park"
	case Skip:
		return "skip"
	case Stop:
		return "stop"
	}
	return fmt.Sprintf("Policy(%d)", uint8(p))
}

func (c Config) withDefaults() Config {
	settings.Default(&c.GapTimeout, 2*time.Second)
	settings.Default(&c.MaxSkip, 1000)
	settings.Default(&c.MaxEarly, 1024)
	settings.Default(&c.MaxEarlyTotal, 1<<16)
	settings.Default(&c.MaxEarlyBytes, 256<<20)
	settings.Default(&c.MaxActive, 100_000)
	settings.Default(&c.IdleTTL, 10*time.Minute)
	settings.Default(&c.Retention, 30*24*time.Hour)
	settings.Default(&c.Dispatcher.Workers, 64)
	settings.Default(&c.Dispatcher.MaxAttempts, 5)
	if c.Keys == nil {
		c.Keys = streamKeys
	}
	if c.Owns == nil {
		c.Owns = func(lockkeys.Key) bool { return true }
	}
	if c.FailureFor == nil {
		failure := c.Failure
		c.FailureFor = func(_ *Event, err error) Policy {
			if e := (*StoreError)(nil); errors.As(err, &e) {
				return Stop
			}
			return failure
		}
	}
	c.Logger = safelog.New(c.Logger)
	if c.Dispatcher.Logger == nil {
		c.Dispatcher.Logger = c.Logger
	}
	return c
}

func streamKeys(e *Event, claim *lockkeys.Claim) error {
	for _, p := range e.Positions {
		claim.Exclusive(p.Stream)
	}
	return nil
}

func (c Config) validate() error {
	var p settings.Problems
	p.Add(c.Store == nil, "Store is nil: give one, NewMemory() for example")
	p.Add(c.Handler == nil, "Handler is nil")
	p.Add(c.Failure > Stop, "Failure is %v: use Park, Skip or Stop", c.Failure)
	p.Add(c.GapPolicy > Stop, "GapPolicy is %v: use Park, Skip or Stop", c.GapPolicy)
	p.Add(c.GapTimeout < 0, "GapTimeout is negative: %v", c.GapTimeout)
	p.Add(c.MaxSkip < 0, "MaxSkip is negative: %d", c.MaxSkip)
	p.Add(c.MaxEarly < 0, "MaxEarly is negative: %d", c.MaxEarly)
	p.Add(c.MaxEarlyTotal < 0, "MaxEarlyTotal is negative: %d", c.MaxEarlyTotal)
	p.Add(c.MaxEarlyBytes < 0, "MaxEarlyBytes is negative: %d", c.MaxEarlyBytes)
	p.Add(c.MaxActive < 0, "MaxActive is negative: %d", c.MaxActive)
	p.Add(c.IdleTTL < 0, "IdleTTL is negative: %v", c.IdleTTL)
	d := &c.Dispatcher
	p.Add(d.Keys != nil, "Dispatcher.Keys is set: use Keys")
	p.Add(d.Handler != nil, "Dispatcher.Handler is set: use Handler")
	p.Add(d.BatchHandler != nil, "Dispatcher.BatchHandler is set: the store's transactions serve many events by themselves")
	p.Add(d.Failure != 0, "Dispatcher.Failure is set: use Failure")
	p.Add(d.FailureFor != nil, "Dispatcher.FailureFor is set: use FailureFor")
	p.Add(d.DeadLetter != nil, "Dispatcher.DeadLetter is set: use DeadLetter")
	return p.Err(ErrConfig)
}
