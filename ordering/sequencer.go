package ordering

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// Sequencer takes events from sources, in whatever order and however often
// they come, and has each handled once, in the order of its numbers; see the
// package documentation. Make one with [New] and end it with
// [Sequencer.Shutdown] or [Sequencer.Close]. All methods may be called from any
// number of goroutines at once.
//
// # Who does what
//
// Whoever brings an event, a source, a replay or the keeper, has the turn while
// he finds the event's place and submits what may run, so events are submitted
// in the order of their numbers. The workers of the dispatcher run them and end
// them. The keeper, one goroutine, writes to the store what is parked and held,
// and feeds it back. The mutex guards what they share; under it nothing calls
// the store, a handler, a callback or the dispatcher, and nothing waits.
type Sequencer struct {
	cfg        Config
	dispatcher *dispatcher.Dispatcher[Job]
	submit     []dispatcher.SubmitOption[Job]
	tasks      sync.Pool
	turn       turn

	background context.Context // ends with a shutdown
	cancel     context.CancelCauseFunc
	accepting  context.Context // ends when mu.err is set
	halt       context.CancelFunc
	gone       chan struct{} // closed when all is over
	goroutines sync.WaitGroup
	keeper     keeper
	stopped    atomic.Bool  // mu.err is set, for workers to look at
	open       atomic.Int64 // events without an outcome
	counts     counts

	mu struct {
		sync.Mutex
		streams   map[lockkeys.Key]*stream
		parkings  map[string]*parking // by ID, and by those of parkings that became part of it
		idle      idleList
		recent    recentIDs
		early     int   // events that wait for earlier ones, and copies of them
		bytes     int64 // of those
		mostEarly int   // of them; at most cfg.MaxEarlyTotal
		drained   chan struct{}
		search    *time.Timer           // for contradictions, or nil
		look      *time.Timer           // for what is held of lost streams, or nil
		lost      map[lockkeys.Key]bool // those
		err       error                 // why nothing is accepted any more
		closers   int                   // calls of Shutdown that wait for the dispatcher
		ending    bool                  // there was such a call, and there is none any more
		over      bool                  // what was waiting was given back
	}
}

// New makes a sequencer, starts its workers, and goes on with what the store
// holds from before. The error wraps [ErrConfig], or is the store's.
func New(ctx context.Context, cfg Config) (*Sequencer, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Sequencer{cfg: cfg.withDefaults()}
	s.turn.init()
	s.tasks.New = func() any { return new(task) }
	s.mu.streams = map[lockkeys.Key]*stream{}
	s.mu.parkings = map[string]*parking{}
	s.mu.mostEarly = s.cfg.MaxEarlyTotal
	s.mu.idle.init()
	s.keeper.wake = make(chan struct{}, 1)
	s.accepting, s.halt = context.WithCancel(context.Background())
	s.gone = make(chan struct{})
	s.background, s.cancel = context.WithCancelCause(context.Background())
	s.submit = []dispatcher.SubmitOption[Job]{dispatcher.OnDone(s.finish)}

	d := s.cfg.Dispatcher
	d.Keys = s.keys
	d.Handler = s.handle
	d.FailureFor = s.failureFor
	d.StrictLocking = true // what a handler did counts from the commit on
	if d.MaxPendingBytes > 0 && d.Size == nil {
		d.Size = func(j Job) int64 { return j.Event.Size() }
	}
	s.cfg.Dispatcher.Size = d.Size
	var err error
	if s.dispatcher, err = dispatcher.New(d); err != nil {
		return nil, errors.Join(ErrConfig, err)
	}
	if err := s.recover(ctx); err != nil {
		s.cancel(ErrClosed)
		return nil, errors.Join(err, s.dispatcher.Close())
	}
	s.compareWorkers()
	s.goroutines.Go(s.keep)
	s.goroutines.Go(s.tidy)
	return s, nil
}

// compareWorkers tells who has more workers than the store has connections for.
func (s *Sequencer) compareWorkers() {
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

// recover takes up what the store holds.
func (s *Sequencer) recover(ctx context.Context) error {
	parked, err := s.cfg.Store.Parked(ctx)
	if err != nil {
		return err
	}
	backlog, err := s.cfg.Store.Backlog(ctx)
	if err != nil {
		return err
	}
	if backlog, err = s.owned(backlog...); err != nil {
		return err
	}
	var came []string // parkings for numbers that have come since
	for _, p := range parked {
		mine, err := s.owned(p.Gap.Stream)
		if err != nil {
			return err
		}
		if (p.Reason == Gap || p.Reason == Waiting) && len(mine) > 0 {
			backlog = append(backlog, p.Gap.Stream) // to ask for it once more
			first, err := s.cfg.Store.Held(ctx, p.Gap.Stream, p.Gap.From, 1, 0)
			if err != nil {
				return err
			}
			if len(first) > 0 && first[0].has(p.Gap.Stream, p.Gap.From) {
				came = append(came, p.ID)
			}
		}
	}
	slices.SortFunc(backlog, lockkeys.Key.Compare)
	backlog = slices.Compact(backlog)
	if err := s.load(ctx, backlog); err != nil {
		return err
	}
	var a after
	defer s.do(&a)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range backlog {
		st := s.mu.streams[key]
		switch {
		case st.parking == nil:
			s.feedLocked(st)
		case st.missing > 0:
			s.openGapLocked(st, &a)
		default:
			s.reopenLocked(st.parking)
		}
	}
	for _, id := range came {
		s.reopenLocked(s.mu.parkings[id])
	}
	return nil
}

// owned returns those of streams that are this sequencer's. A panic of Owns is
// the error.
func (s *Sequencer) owned(streams ...lockkeys.Key) (mine []lockkeys.Key, err error) {
	err = contain(func() error {
		for _, key := range streams {
			if s.cfg.Owns(key) {
				mine = append(mine, key)
			}
		}
		return nil
	})
	return mine, err
}

func (h HeldEvent) has(stream lockkeys.Key, number uint64) bool {
	n, ok := h.On(stream)
	return ok && n == number
}

// Err returns nil while events are accepted; afterwards what offers are told:
// [ErrClosed], or an error that wraps [ErrStopped] and the cause.
func (s *Sequencer) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err
}
