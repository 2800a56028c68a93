package ordering

import (
	"context"
	"log/slog"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/lockkeys"
)

// Config configures a [Sequencer]. Store and Handler are required; the zero
// value of every other field means its default.
type Config[T any] struct {
	// Store keeps the numbers that are done. It belongs to the caller, who must
	// close it after the sequencer.
	Store Store
	// Consumer identifies the sequencer in the store. Sequencers that use one
	// store at the same time must differ in its name, or in its partition if
	// they share the streams. Default: the name "default", without partitions.
	Consumer Consumer
	// Handler processes an event.
	Handler Handler[T]
	// Together, if set, runs the handlers of events that wait for each other, by
	// their lock keys, in one transaction of the store, which makes a much-used
	// account cheaper: it is the method Together of a store of package sqlstore.
	// Each event has its own outcome, after the commit. If one fails, all is
	// undone, and each runs by itself. So set it only for a Handler that does
	// nothing outside its transaction and reads nothing outside it, as it should
	// be with sqlstore.InTx: what the event before has written can be seen
	// nowhere else until the commit. How long a chain may become is
	// Dispatcher.MaxBatch and Dispatcher.ChainTime. Default: nil; each event has a
	// transaction of its own.
	Together dispatcher.Together
	// Decode decodes an event to the [Job.Value] that Keys, Handler and
	// FailureFor get, once for each event that comes. It is called by several
	// goroutines at once. If it returns an error or panics, the event counts as
	// failed for good. Default, if T is *Event: the event itself. For any other
	// T it is required.
	Decode func(e *Event) (T, error)
	// Keys derives the lock keys of an event. If it returns an error or panics,
	// the event counts as failed for good. Default: the event's streams, each
	// exclusively, so that a stream's events run one after the other. Commands
	// have no keys by default, and run in parallel with everything.
	Keys func(job Job[T], claim *lockkeys.Claim) error
	// Dispatcher configures how handlers run: workers, policy, bounds, attempts
	// and back-off, timeout, observer and logger. Here the default for Workers
	// is 64, since handlers usually wait for a store, and those that wait for
	// the same flush of a disk share it (a store on PostgreSQL should have a
	// connection for each: New logs a warning if not); for MaxAttempts it is 5.
	// Keys, Handler, BatchHandler, Together, Failure, FailureFor and DeadLetter are set
	// by the sequencer and must be empty. StrictLocking is always on: an event
	// keeps its keys until its numbers are done, which is after its handler has
	// returned. So a handler can neither release them nor hold the event.
	Dispatcher dispatcher.Config[Job[T]]

	// Failure is the policy for an event whose attempts are used up or whose
	// error is permanent, see [dispatcher.Permanent].
	//
	// Park closes the event's streams from its numbers on. Their later events
	// are held by the store, all others go on, until an operator calls Resume,
	// Skip or Drop. DeadLetter marks the numbers as done without the event's
	// effect, with a job state that says so; the streams go on. Stop starts no
	// handler any more and refuses offers. For a command, which has no streams,
	// Park keeps nothing of it, so that a repeat runs again, and with
	// DeadLetter repeats get the stored error. Default: Park.
	//
	// It does not apply to failures of the store, see [StoreError]: the
	// sequencer waits for the store, see StoreTimeout.
	Failure dispatcher.FailurePolicy
	// FailureFor, if set, chooses the policy, once for each failure; 0 means Failure,
	// and so do a panic and what is no policy, which are logged.
	FailureFor func(job Job[T], err error) dispatcher.FailurePolicy
	// DeadLetter, if set, is called with each event that is given up. For one
	// that failed under the policy DeadLetter, it is called after that was
	// recorded, and before any event that waited for it runs. For a held event
	// that an operator gives up, or that can never run, it is called before the
	// store deletes the event. After a crash it is called possibly more than once: in
	// a term after one that did not end in good order, also for each copy of an event
	// that was given up before the term began, or in its first minute, since clocks
	// differ. Its error or panic is logged.
	DeadLetter func(ctx context.Context, e *Event, err error) error
	// MaxCrashes is how many runs of an event may end with the process: by the memory
	// that it takes, by os.Exit, by a crash in C. After that it is not run any more
	// but fails for good, by Failure, with a [*CrashError]. What counts, and what it
	// costs, says the package documentation under "What ends the process". Default:
	// 5; negative: nothing is counted, and an event that ends the process does so
	// again and again. A process that is killed from outside, again and again as it
	// starts, looks the same: set it higher where that happens.
	MaxCrashes int
	// MaxSpread bounds the streams that one failure may close. With strict
	// order, a failed event closes its streams; an event behind it on one of
	// them is held and closes its other streams, and so on: with events on
	// several streams, one failure may close all that are connected by later
	// events. Beyond the bound, Spread applies. Default: 0, no bound.
	MaxSpread int
	// Spread is the policy beyond MaxSpread: with DeadLetter, the default, the
	// failed events are given up as by Skip, and the streams go on; with Stop
	// the sequencer stops. Park is refused.
	Spread dispatcher.FailurePolicy
	// StoreTimeout is how long the store may be unavailable. Until then its
	// failures do not count as attempts, events wait, and so do offers once
	// there are many; everything goes on when it is back. After that the
	// sequencer stops. Default: 5 minutes.
	StoreTimeout time.Duration

	// Owns reports whether a stream belongs to this sequencer, if several share
	// a store: held events and gaps of other streams are left to the others. It
	// does not restrict what may be offered. It is called by several goroutines
	// at once. Default: all streams.
	Owns func(stream lockkeys.Key) bool

	// GapTimeout is how long an event waits for missing earlier ones until
	// these are requested, called T_gap in the paper. If too many events wait, or
	// a replay has brought the event, they are requested at once, but GapPolicy
	// applies no sooner. Default: 2 s.
	GapTimeout time.Duration
	// Replayer is asked for missing events. Default: none, so that GapPolicy
	// applies after GapTimeout.
	Replayer Replayer
	// MaxReplays bounds the calls of the Replayer that are under way at a time, and
	// so their goroutines; the gaps of further streams wait for their turn. A
	// replay takes as long as its source, with all attempts. Default: 256.
	MaxReplays int
	// GapPolicy is the policy for a stream whose missing events the replayer
	// could not get: Park closes it there, DeadLetter skips the numbers, with a
	// record, and Stop stops the sequencer. Default: Park. Numbers that never
	// existed, according to the replayer's source, are skipped with a record in
	// any case.
	GapPolicy dispatcher.FailurePolicy
	// MaxSkip bounds the numbers that are skipped at once, by GapPolicy, by
	// [Sequencer.Skip], or because they never existed according to the
	// replayer's source: a corrupted number must not mark all numbers before it
	// as done, so that good events are taken for duplicates. A stream with a
	// larger gap is parked; see [Sequencer.SkipTo]. Default: 1,000.
	MaxSkip int

	// MaxEarly bounds the events of one stream that wait in memory for earlier
	// ones. When one more comes, all of them are held by the store, and the
	// missing ones are requested at once. Default: 1024.
	MaxEarly int
	// MaxEarlyTotal is the same bound for all streams together, including
	// copies of such events; [Sequencer.LimitEarly] lowers it. Default: 65,536.
	MaxEarlyTotal int
	// MaxEarlyBytes bounds their memory: [Event.Size], and about 1.5 KiB for
	// each of their positions, whose streams stay in memory too. It also bounds
	// the events that wait for the store: beyond it offers wait. Default: 256
	// MiB.
	MaxEarlyBytes int64

	// MaxActive bounds the idle streams in memory: those with nothing in flight
	// that are not parked. The least recently used ones leave first, and are
	// loaded from the store again when needed. Default: 100,000.
	MaxActive int
	// IdleTTL is how long an idle stream, or a parking with its streams, stays
	// in memory; with a tolerance of a quarter. Default: 10 minutes.
	IdleTTL time.Duration

	// Retention is how long job states are kept; negative means for ever.
	// Numbers are kept for ever. But without a job state it cannot be told
	// whether an event with the same numbers is the one that was done; it is
	// taken for a duplicate, which is told as [Unconfirmed], logged, and counted in
	// [Stats]. Default: 30 days.
	Retention time.Duration
	// Brief says that of events with one position that were applied at the first attempt,
	// and without a reply, the job state is not kept once the next number of the stream is
	// done. It is for streams that nobody but their own source writes, so that a number
	// says all, and which are so long that the job states would cost more than the
	// effects. Default: they are kept for Retention.
	Brief bool

	// CommandRetention is how long commands are remembered by their IDs, with
	// their replies: a later repeat runs again. It is measured by the clocks of the
	// processes that apply them and that prune, which must not be apart by more than a
	// small part of it. Negative means for ever. Default: 7 days.
	CommandRetention time.Duration

	// RequestInterval is how often the store is asked for requests of operators who
	// work from outside of the process, see [Request]; negative means never.
	// Default: 1 s.
	RequestInterval time.Duration

	// Observer, if set, receives all notices, from several goroutines at once, so
	// that two in quick succession may come in either order. The sequencer waits
	// for it, so it should be quick, and must not call the sequencer. Its panics
	// are logged.
	Observer func(Notice)
	// Logger receives what an operator should know: gaps that stay open, parked
	// streams, contradictions, a stop. Default: slog.Default().
	Logger *slog.Logger
}

func (c Config[T]) withDefaults() Config[T] {
	settings.Default(&c.GapTimeout, 2*time.Second)
	settings.Default(&c.MaxReplays, 256)
	settings.Default(&c.MaxSkip, 1000)
	settings.Default(&c.MaxCrashes, 5)
	settings.Default(&c.MaxEarly, 1024)
	settings.Default(&c.MaxEarlyTotal, 1<<16)
	settings.Default(&c.MaxEarlyBytes, 256<<20)
	settings.Default(&c.MaxActive, 100_000)
	settings.Default(&c.IdleTTL, 10*time.Minute)
	settings.Default(&c.Retention, 30*24*time.Hour)
	settings.Default(&c.CommandRetention, 7*24*time.Hour)
	settings.Default(&c.RequestInterval, requestInterval)
	settings.Default(&c.StoreTimeout, 5*time.Minute)
	settings.Default(&c.Failure, dispatcher.Park)
	settings.Default(&c.GapPolicy, dispatcher.Park)
	settings.Default(&c.Spread, dispatcher.DeadLetter)
	settings.Default(&c.Dispatcher.Workers, 64)
	settings.Default(&c.Dispatcher.MaxAttempts, 5)
	if c.Keys == nil {
		c.Keys = func(job Job[T], claim *lockkeys.Claim) error { return streamKeys(job.Event, claim) }
	}
	if c.Owns == nil {
		c.Owns = func(lockkeys.Key) bool { return true }
	}
	if c.FailureFor == nil {
		failure := c.Failure
		c.FailureFor = func(Job[T], error) dispatcher.FailurePolicy { return failure }
	}
	if c.Decode == nil {
		c.Decode = func(e *Event) (T, error) { return any(e).(T), nil }
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

func (c Config[T]) validate() error {
	var p settings.Problems
	p.Add(c.Store == nil, "Store is nil: give one, NewMemory() for example")
	p.Add(c.Handler == nil, "Handler is nil")
	if _, err := c.Consumer.WithDefaults(); err != nil {
		p.Add(true, "%v", err)
	}
	_, plain := any((*Event)(nil)).(T)
	p.Add(c.Decode == nil && !plain, "Decode is nil: with a type of value other than *Event it is required")
	p.Add(c.Failure > dispatcher.Stop, "Failure is %v: use Park, DeadLetter or Stop", c.Failure)
	p.Add(c.GapPolicy > dispatcher.Stop, "GapPolicy is %v: use Park, DeadLetter or Stop", c.GapPolicy)
	p.Add(c.Spread > dispatcher.Stop || c.Spread == dispatcher.Park, "Spread is %v: use DeadLetter or Stop", c.Spread)
	p.Add(c.MaxSpread < 0, "MaxSpread is negative: %d", c.MaxSpread)
	p.Add(c.StoreTimeout < 0, "StoreTimeout is negative: %v", c.StoreTimeout)
	p.Add(c.GapTimeout < 0, "GapTimeout is negative: %v", c.GapTimeout)
	p.Add(c.MaxSkip < 0, "MaxSkip is negative: %d", c.MaxSkip)
	p.Add(c.MaxReplays < 0, "MaxReplays is negative: %d", c.MaxReplays)
	p.Add(c.MaxEarly < 0, "MaxEarly is negative: %d", c.MaxEarly)
	p.Add(c.MaxEarlyTotal < 0, "MaxEarlyTotal is negative: %d", c.MaxEarlyTotal)
	p.Add(c.MaxEarlyBytes < 0, "MaxEarlyBytes is negative: %d", c.MaxEarlyBytes)
	p.Add(c.MaxActive < 0, "MaxActive is negative: %d", c.MaxActive)
	p.Add(c.IdleTTL < 0, "IdleTTL is negative: %v", c.IdleTTL)
	d := &c.Dispatcher
	p.Add(d.MaxAttempts < 0, "Dispatcher.MaxAttempts is negative: %d", d.MaxAttempts)
	p.Add(d.Keys != nil, "Dispatcher.Keys is set: use Keys")
	p.Add(d.Handler != nil, "Dispatcher.Handler is set: use Handler")
	p.Add(d.BatchHandler != nil, "Dispatcher.BatchHandler is set: the store's transactions serve many events by themselves")
	p.Add(d.Together != nil, "Dispatcher.Together is set: use Together")
	p.Add(d.Failure != 0, "Dispatcher.Failure is set: use Failure")
	p.Add(d.FailureFor != nil, "Dispatcher.FailureFor is set: use FailureFor")
	p.Add(d.DeadLetter != nil, "Dispatcher.DeadLetter is set: use DeadLetter")
	return p.Err(ErrConfig)
}
