package ordering

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/internal/loglimit"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// Sequencer accepts events from sources, in any order and any number of times,
// and handles each once, in the order of its numbers; see the package
// documentation. Make one with [New] and end it with [Sequencer.Shutdown] or
// [Sequencer.Close]. All methods are safe for concurrent use.
//
// # Structure
//
// The core makes all decisions about events. Everything that happens is the
// input of one of its steps, under the mutex, and the actions that the step
// returns are executed after the mutex is released. So while it is held, no
// store, handler, callback or dispatcher is called, and nothing waits.
//
//	source ─▶ Offer ─▶ step ─┬─▶ submitter ─▶ dispatcher ─▶ worker: handler, commit ─▶ step
//	                         ├─▶ keeper, one for reads and one for writes ─▶ store ─▶ step
//	                         ├─▶ replay ─▶ Offer … ─▶ step
//	                         └─▶ outcomes and notices
//	                  clock ─▶ step
//
// There is no other feedback: the result of an action is always the input of a
// step.
type Sequencer[T any] struct {
	cfg        Config[T]
	term       Term
	info       TermInfo
	dispatcher *dispatcher.Dispatcher[Job[T]]
	items      sync.Pool
	submitter  submitter[T]
	reads      keeper
	writes     keeper
	clock      clock

	background  context.Context // ends with a shutdown
	cancel      context.CancelCauseFunc
	accepting   context.Context // ends when nothing is accepted any more
	halt        context.CancelFunc
	gone        chan struct{} // closed when all is over
	goroutines  sync.WaitGroup
	stopped     atomic.Bool  // mu.err is set
	crowded     atomic.Bool  // too many events wait for the store
	open        atomic.Int64 // events without an outcome
	counts      counts
	outage      loglimit.Limit // of lines about a store that is away
	unconfirmed loglimit.Limit // of lines about events that are taken for duplicates
	caution     *caution       // nil if the term before ended in good order

	mu struct {
		sync.Mutex
		core    *core.Machine
		actions []core.Action // of the last step
		queue   []*item[T]    // to be submitted, in this order
		space   chan struct{} // closed when it is no longer crowded, if someone waits
		drained chan struct{} // closed when no event is in flight, if someone waits
		err     error         // why nothing is accepted any more
		closers int           // calls of Shutdown that wait for the dispatcher
		ending  bool          // there was such a call, and there is none any more
		over    bool          // waiting events were given back
	}
}

// New makes a sequencer, starts its workers, and continues with the events that
// the store holds. It begins a term of cfg.Consumer in the store: another
// sequencer with the same consumer and partition can no longer write, and stops
// when it next tries. The error wraps [ErrConfig], or is that of the store.
func New[T any](ctx context.Context, cfg Config[T]) (*Sequencer[T], error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Sequencer[T]{cfg: cfg.withDefaults()}
	s.items.New = func() any { return &item[T]{calls: new(atomic.Uint64)} }
	s.outage.Lines, s.outage.Every = 5, time.Second
	s.unconfirmed.Lines, s.unconfirmed.Every = 5, time.Minute
	s.mu.core = core.New(s.cfg.core(host[T]{}))
	s.submitter.init()
	s.reads.init()
	s.writes.init()
	s.clock.init()
	s.accepting, s.halt = context.WithCancel(context.Background())
	s.gone = make(chan struct{})
	s.background, s.cancel = context.WithCancelCause(context.Background())
	s.submitter.options[0] = dispatcher.OnDone(s.finish)

	d := s.cfg.Dispatcher
	d.Keys = s.keys
	d.Handler = s.handle
	if s.cfg.Together != nil {
		d.Together = s.together
	}
	d.FailureFor = s.failureFor
	d.StrictLocking = true // an effect is final only after the commit
	d.MaxAttempts = unlimited
	if d.MaxPendingBytes > 0 {
		d.Size = sizeOf(d.Size)
	}
	s.cfg.Dispatcher.Size = d.Size
	var err error
	if s.dispatcher, err = dispatcher.New(d); err != nil {
		return nil, errors.Join(ErrConfig, err)
	}
	if err := s.begin(ctx); err != nil {
		if p := s.info.Previous; s.term != nil && (p == nil || p.Ended) { // else the next one would not know that the one before has crashed
			s.endTerm()
		}
		s.cancel(ErrClosed)
		return nil, errors.Join(err, s.dispatcher.Close())
	}
	s.compareWorkers()
	s.goroutines.Go(func() { s.keep(&s.reads) })
	s.goroutines.Go(func() { s.keep(&s.writes) })
	s.goroutines.Go(s.submitLeft)
	s.goroutines.Go(s.tick)
	s.goroutines.Go(s.prune)
	s.goroutines.Go(s.attend)
	return s, nil
}

// sizeOf returns how large a job counts by a function of the caller's, which may be
// nil and is not asked about events that could not be decoded.
func sizeOf[T any](size func(Job[T]) int64) func(Job[T]) int64 {
	return func(j Job[T]) int64 {
		if size == nil || j.item.bad != nil || j.item.read != nil {
			return j.Event.Size()
		}
		return size(j)
	}
}

// unlimited is the dispatcher's number of attempts: the sequencer itself counts
// those that are not the store's fault.
const unlimited = 1 << 30

// compareWorkers logs a warning if there are more workers than the store has
// connections for.
func (s *Sequencer[T]) compareWorkers() {
	store, ok := s.cfg.Store.(interface{ MaxHandlers() int })
	if !ok {
		return
	}
	if most, workers := store.MaxHandlers(), s.cfg.Dispatcher.Workers; most > 0 && workers > most {
		s.cfg.Logger.Warn("the sequencer has more workers than its store has connections for handlers: "+
			"those that are too many wait for the others; give the store as many (pool_max_conns in the URL of package postgres)",
			"workers", workers, "connections", most)
	}
}

// begin begins the term and loads the store's held events and parkings.
func (s *Sequencer[T]) begin(ctx context.Context) (err error) {
	term, err := s.cfg.Store.Begin(ctx, s.cfg.Consumer)
	if err != nil {
		return err
	}
	s.term, s.info = term, term.Info()
	if p := s.info.Previous; p != nil && !p.Ended {
		s.cfg.Logger.Warn("the term before did not end in good order: its holder has crashed, or is still there and will find out",
			"consumer", s.info.Name, "partition", s.info.Partition, "holder", p.Holder, "since", p.Since)
		if s.cfg.MaxCrashes > 0 {
			s.caution = newCaution(s.cfg.Store)
		}
	}
	parked, err := s.term.Parked(ctx)
	if err != nil {
		return err
	}
	keys, err := s.term.Backlog(ctx)
	if err != nil {
		return err
	}
	if keys, err = s.owned(keys...); err != nil {
		return err
	}
	var in core.Began
	for _, p := range parked {
		if p.Reason != Gap && p.Reason != Waiting {
			continue
		}
		mine, err := s.owned(p.Gap.Stream)
		if err != nil {
			return err
		}
		if len(mine) == 0 {
			continue
		}
		keys = append(keys, p.Gap.Stream)
		for _, c := range p.Streams {
			if c.Bound != "" {
				continue
			}
			at := c.Position().Place()
			first, err := s.term.Held(ctx, c.Stream, at, 1, 0)
			if err != nil {
				return err
			}
			if len(first) > 0 && first[0].has(c.Stream, at) {
				in.Came = append(in.Came, p.ID)
			}
		}
	}
	slices.SortFunc(keys, lockkeys.Key.Compare)
	if in.Loaded, err = s.load(ctx, slices.Compact(keys)); err != nil {
		return err
	}
	s.step(in)
	return nil
}

// owned returns those of the streams that belong to this sequencer. A panic of
// Owns is the error.
func (s *Sequencer[T]) owned(streams ...lockkeys.Key) (mine []lockkeys.Key, err error) {
	err = contain.Apart(func() error {
		for _, key := range streams {
			if s.cfg.Owns(key) {
				mine = append(mine, key)
			}
		}
		return nil
	})
	return mine, err
}

func (h HeldEvent) has(stream lockkeys.Key, place uint64) bool {
	p, ok := h.On(stream)
	return ok && p.Place() == place
}

// Err returns nil while events are accepted, and afterwards the error of
// offers: [ErrClosed], or one that wraps [ErrStopped] and the cause.
func (s *Sequencer[T]) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err
}

// Term returns the term that the sequencer works in.
func (s *Sequencer[T]) Term() TermInfo { return s.info }

// prune deletes job states from the store that are past their retention.
func (s *Sequencer[T]) prune() {
	retention := s.cfg.Retention
	if r := s.cfg.CommandRetention; retention < 0 || r > 0 && r < retention {
		retention = r
	}
	if retention < 0 {
		return
	}
	ticker := time.NewTicker(min(max(retention/10, time.Second), time.Hour))
	defer ticker.Stop()
	before := func(retention time.Duration) time.Time {
		if retention < 0 {
			return time.Time{}
		}
		return time.Now().Add(-retention)
	}
	for {
		select {
		case <-ticker.C:
			_, err := s.term.Prune(s.background, before(s.cfg.Retention), before(s.cfg.CommandRetention))
			if err != nil && s.background.Err() == nil {
				s.cfg.Logger.Warn("job states could not be pruned", "err", err)
			}
		case <-s.background.Done():
			return
		}
	}
}
