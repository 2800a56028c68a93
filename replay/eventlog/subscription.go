package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// SubscriptionConfig configures a [Subscription]. Name, Store and Handler are
// required; the zero value of every other field means its default.
type SubscriptionConfig struct {
	// Name is the subscription's name in the store, in which it keeps its checkpoint:
	// a new name starts at the first entry. One with a version, such as "summary/2",
	// lets the next version be built beside the one that is used. If another process
	// subscribes under the same name, and to the same partitions, it takes over, and this
	// one stops: see [Subscription.Err]. In the store the consumer is called
	// "eventlog/" and this name.
	Name string
	// Store keeps how far the subscription has come, and what is parked. If handlers
	// write in its transactions, see [sqlstore.InTx], each entry has its effect exactly
	// once. It may be on the same database as the log or on another one.
	Store ordering.Store
	// Handler processes an entry.
	Handler ordering.Handler[Entry]
	// Types are the types of the events that the handler is for, as they were written,
	// before any [Upcaster]. Entries of other types are done when their turn comes, exactly
	// once like the others, but they are not decoded, have no keys of their own, and no
	// handler is called. The types may be others after a restart; but an entry that was
	// parked since the handler has failed for it stays parked when it is resumed, until its
	// type is named again or it is skipped. That is not so for one that was parked since it
	// could not be decoded, nor for those that are held behind a parked one: no handler was
	// called for them, and they are passed over if their types are not named any more.
	// Default: all.
	Types []string
	// Keys derives the lock keys of an entry. Default: the streams of its event, each
	// exclusively: so the entries of a stream are handled in their order, and those of
	// different streams in parallel. With Together: the stream of the partition, so
	// that its entries are handled one after the other, many in a transaction.
	Keys func(job ordering.Job[Entry], claim *lockkeys.Claim) error
	// Partitions are the partitions to subscribe to: several processes can share the
	// work of one subscription, if each has partitions of its own. Default: all.
	Partitions []int
	// Together is [ordering.Config.Together]. The checkpoint of a partition is one row,
	// which on PostgreSQL each transaction locks: so if handlers do little but write,
	// those of a partition are several times as fast in common transactions as in
	// parallel. On SQLite transactions are shared anyway. Default: each entry has a
	// transaction of its own.
	Together dispatcher.Together
	// Dispatcher is [ordering.Config.Dispatcher].
	Dispatcher dispatcher.Config[ordering.Job[Entry]]
	// Failure is [ordering.Config.Failure]. Under Park, the default, an entry that
	// fails for good, or that cannot be read, stops its partition: those that were
	// taken beside it end, later ones are not read, until an operator resumes it or
	// gives it up, with [Subscription.Sequencer].
	Failure dispatcher.FailurePolicy
	// DeadLetter is given the entries that are given up, by the policy DeadLetter or by an
	// operator, when [ordering.Config.DeadLetter] says. An entry that cannot be read has
	// no event, and err wraps its [*EntryError]. All of them stay in the log. Default: they
	// are only logged and counted.
	DeadLetter func(ctx context.Context, entry Entry, err error) error
	// Retention is [ordering.Config.Retention]: how long the store keeps what became of
	// the last entry, and of those that were not applied at the first attempt; of others it
	// keeps that they are done. A subscription that has nothing to do for longer cannot tell any more
	// whether the log has another entry in the place of the last one that it has handled;
	// it logs that when it starts. Default: 7 days.
	Retention time.Duration
	// Window bounds the entries of a partition that have been read and have not ended.
	// Default: 1,024.
	Window int
	// Poll is the interval of looking for entries without [Log.Notify]. Default: 250 ms.
	Poll time.Duration
	// Logger logs what an operator should know. Default: slog.Default().
	Logger *slog.Logger
}

func (c SubscriptionConfig) withDefaults() SubscriptionConfig {
	settings.Default(&c.Window, 1024)
	settings.Default(&c.Retention, 7*24*time.Hour)
	settings.Default(&c.Poll, 250*time.Millisecond)
	if c.Keys == nil {
		c.Keys = streamKeys
		if c.Together != nil {
			c.Keys = partitionKey
		}
	}
	c.Logger = safelog.New(c.Logger)
	if c.Types != nil {
		c = c.only()
	}
	return c
}

// errOtherType is the error of an entry that was parked since its handler failed, and has
// no handler any more.
var errOtherType = dispatcher.Permanent(errors.New("eventlog: the entry has failed before, and its type is not among Types any more: " +
	"name it, and resume the entry; or skip the entry"))

// only passes over entries that were not decoded, since they are of other types: but not
// over one that was parked since the handler has failed for it.
func (c SubscriptionConfig) only() SubscriptionConfig {
	handler, keys := c.Handler, c.Keys
	c.Handler = func(ctx context.Context, job ordering.Job[Entry]) error {
		switch {
		case job.Value.Event != nil:
			return handler(ctx, job)
		case job.ParkedAfter() > 0:
			return errOtherType
		}
		return nil
	}
	c.Keys = func(job ordering.Job[Entry], claim *lockkeys.Claim) error {
		switch {
		case job.Value.Event != nil:
			return keys(job, claim)
		case c.Together != nil: // in common transactions, like the others
			return partitionKey(job, claim)
		}
		return nil
	}
	return c
}

func streamKeys(job ordering.Job[Entry], claim *lockkeys.Claim) error {
	for _, p := range job.Value.Event.Positions {
		claim.Exclusive(p.Stream)
	}
	return nil
}

func partitionKey(job ordering.Job[Entry], claim *lockkeys.Claim) error {
	claim.Exclusive(job.Value.At.Stream)
	return nil
}

// consumer is the name of the consumer in the store, which no sequencer of the caller's has.
func (c SubscriptionConfig) consumer() string { return "eventlog/" + c.Name }

func (c SubscriptionConfig) problems(l *Log) (p settings.Problems) {
	p.Add(l == nil, "the log is nil: make one with New")
	p.Add(c.Name == "", "Name is empty: name the subscription")
	p.Add(c.Store == nil, "Store is nil: give one")
	p.Add(c.Handler == nil, "Handler is nil: give one")
	p.Add(c.Types != nil && len(c.Types) == 0, "Types is empty, but not nil: name some types, or leave it out for all")
	p.Add(c.Window < 0, "Window is %d: it must be positive, or 0 for the default", c.Window)
	p.Add(c.Poll < 0, "Poll is %v: it must be positive, or 0 for the default", c.Poll)
	seen := map[int]bool{}
	for _, n := range c.Partitions {
		p.Add(l != nil && (n < 0 || n >= l.config.Partitions) || seen[n], "Partitions has %d: each must be one of the log's, once", n)
		seen[n] = true
	}
	return p
}

// Subscription reads a log from its checkpoint on, and follows it: an
// [ordering.Sequencer] handles the entries, those of different streams in parallel,
// and its store keeps which of them are done. Make it with [Subscribe]. Its methods
// are safe for concurrent use.
type Subscription struct {
	log       *Log
	config    SubscriptionConfig
	types     map[string]bool // nil for all
	sequencer *ordering.Sequencer[Entry]
	feeds     []*feed
	stop      context.CancelFunc
	running   sync.WaitGroup
}

// Errors of subscriptions.
var (
	// ErrAhead is wrapped by the error of a subscription that has come further than the
	// log: the log has lost entries, since an old backup was restored for example.
	// Raise [Config.Epoch], see [outbox.Config.Epoch]; or start the subscription anew,
	// under another name, if what it has made of the lost entries is to go as well.
	ErrAhead = errors.New("eventlog: the subscription is ahead of the log, which has lost entries: " +
		"raise Config.Epoch, or build the subscription anew under another name")
	// ErrParked is wrapped by the error of Wait for an entry behind one that is parked.
	ErrParked = errors.New("eventlog: the subscription is parked: see Parked of its sequencer")
	// ErrClosed is wrapped by the error of Wait when the subscription has ended.
	ErrClosed = errors.New("eventlog: the subscription is closed")
)

// Subscribe starts a subscription, which ends with Shutdown, Drain or Close; ctx is for
// the start alone. The error wraps [ErrConfig], or is that of [ordering.New].
func Subscribe(ctx context.Context, l *Log, config SubscriptionConfig) (*Subscription, error) {
	if err := config.problems(l).Err(ErrConfig); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	s := &Subscription{log: l, config: config}
	if config.Types != nil {
		s.types = map[string]bool{}
		for _, t := range config.Types {
			s.types[t] = true
		}
	}
	partitions := config.Partitions
	if partitions == nil {
		for n := range l.config.Partitions {
			partitions = append(partitions, n)
		}
	}
	consumer := ordering.Consumer{Name: config.consumer()}
	if len(partitions) < l.config.Partitions {
		consumer.Partition = fmt.Sprint(slices.Sorted(slices.Values(partitions)))
	}
	mine := map[lockkeys.Key]bool{}
	for _, n := range partitions {
		f := &feed{subscription: s, partition: n, stream: Partition(n)}
		s.feeds = append(s.feeds, f)
		mine[f.stream] = true
	}
	var err error
	s.sequencer, err = ordering.New(ctx, ordering.Config[Entry]{
		Store: config.Store, Consumer: consumer,
		Handler: config.Handler, Together: config.Together, Keys: config.Keys,
		Decode:     s.entry,
		Dispatcher: config.Dispatcher, Failure: config.Failure, DeadLetter: s.deadLetter(), Retention: config.Retention, Brief: true,
		Owns:   func(stream lockkeys.Key) bool { return mine[stream] },
		Logger: config.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("eventlog: subscribe %q: %w", config.Name, err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	for _, f := range s.feeds {
		s.running.Go(func() { f.run(running) })
	}
	return s, nil
}

// Sequencer returns the sequencer of the subscription, for operators: its parkings are
// those of the subscription, on the streams of [Partition]. To decide about a parking as it
// was seen, and not about what has failed since, pass its [ordering.Parking.Target] to
// [ordering.Sequencer.Act]. Do not offer events to it.
func (s *Subscription) Sequencer() *ordering.Sequencer[Entry] { return s.sequencer }

// Err returns nil while the subscription works, and otherwise why it does not: an error
// that wraps [ErrAhead], or that of its sequencer, [ordering.ErrClosed] after its end, or
// one that wraps [ordering.ErrStopped] if another process has taken it over or the store
// has failed for too long. One that is parked works.
func (s *Subscription) Err() error {
	for _, f := range s.feeds {
		if err := f.failure(); err != nil {
			return err
		}
	}
	return s.sequencer.Err()
}

// entry decodes an event that was offered by a feed, or one that the store has held.
func (s *Subscription) entry(e *ordering.Event) (Entry, error) {
	if s.types != nil && !s.types[e.Type] && len(e.Payload) > 0 {
		return Entry{At: e.Positions[0], Time: e.Time}, nil
	}
	return s.read(e)
}

// read is entry for an event of any type.
func (s *Subscription) read(e *ordering.Event) (Entry, error) {
	entry := Entry{At: e.Positions[0], Time: e.Time}
	var err error
	if entry.Event, err = s.log.decode(e.ID, e.Type, e.Payload); err != nil {
		if len(e.Payload) == 0 {
			err = ErrLost
		}
		return entry, &EntryError{At: entry.At, Event: e.ID, Reason: err}
	}
	return entry, nil
}

// deadLetter is SubscriptionConfig.DeadLetter for the sequencer.
func (s *Subscription) deadLetter() func(ctx context.Context, e *ordering.Event, err error) error {
	if s.config.DeadLetter == nil {
		return nil
	}
	return func(ctx context.Context, e *ordering.Event, err error) error {
		entry, unread := s.read(e)
		if unread != nil {
			err = errors.Join(err, unread)
		}
		return s.config.DeadLetter(ctx, entry, err)
	}
}

// Progress is how far a subscription has come in a partition.
type Progress struct {
	// Done is the position up to which all entries have been handled.
	Done ordering.Position
	// Head is the last entry of the partition.
	Head ordering.Position
	// Parked says that the partition is stopped until an operator decides.
	Parked bool
	// Err is the latest error of reading the log, or nil.
	Err error
}

// Progress returns how far the subscription has come in each of its partitions.
func (s *Subscription) Progress(ctx context.Context) ([]Progress, error) {
	list := make([]Progress, len(s.feeds))
	for i, f := range s.feeds {
		head, err := s.log.Head(ctx, f.partition)
		if err != nil {
			return nil, err
		}
		list[i] = f.progress()
		list[i].Head = head
	}
	return list, nil
}

// Wait waits until all entries of a partition up to a position have been handled: so
// whoever has appended one, and reads what the subscription has made of it, sees it.
// Call [Log.Notify] after the commit, or it takes until the next poll. The error is
// that of ctx, or wraps [ErrClosed] or [ErrAhead] if the subscription does not work any
// more, see Err, or [ErrParked] if the partition is parked, since that lasts until an
// operator decides; or [ErrPartition] if it is none of the subscription.
func (s *Subscription) Wait(ctx context.Context, at ordering.Position) error {
	for _, f := range s.feeds {
		if f.stream == at.Stream {
			return f.wait(ctx, at.Place())
		}
	}
	return fmt.Errorf("%w: subscription %q does not have %s", ErrPartition, s.config.Name, at.Stream)
}

// CatchUp waits until everything that is in the log at the time of the call has been
// handled; see Wait. A new version of a projection can be used from then on.
func (s *Subscription) CatchUp(ctx context.Context) error {
	for _, f := range s.feeds {
		head, err := s.log.Head(ctx, f.partition)
		if err != nil {
			return err
		}
		if err := f.wait(ctx, head.Place()); err != nil {
			return err
		}
	}
	return nil
}

// Drain stops reading and waits until what has been read has been handled. See
// [ordering.Sequencer.Drain].
func (s *Subscription) Drain(ctx context.Context) error {
	s.end()
	return s.sequencer.Drain(ctx)
}

// Shutdown stops reading, and the handlers that run until the deadline of ctx. See
// [ordering.Sequencer.Shutdown].
func (s *Subscription) Shutdown(ctx context.Context) error {
	s.end()
	return s.sequencer.Shutdown(ctx)
}

// Close ends the subscription at once. See [ordering.Sequencer.Close].
func (s *Subscription) Close() error {
	s.end()
	return s.sequencer.Close()
}

func (s *Subscription) end() {
	s.stop()
	s.running.Wait()
}
