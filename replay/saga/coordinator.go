package saga

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/loglimit"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// pin is what a run is pinned to.
type pin struct {
	name    string
	version int
}

func (d *definition) pin() pin { return pin{d.name, d.version} }

// Coordinator runs sagas; see the package documentation. Make it with [New], and end it
// with [Coordinator.Shutdown] or [Coordinator.Close]. Its methods are safe for concurrent
// use.
//
// A run is a message of its dispatcher, which takes what the run keeps and is held until
// the run has ended. Each step that is under way is another one, with the keys of the
// step; it is held while it waits for its next attempt, a reply, or an operator.
type Coordinator struct {
	Reader
	cfg         Config
	term        ordering.Term
	d           *dispatcher.Dispatcher[*message]
	definitions map[pin]*definition
	newest      map[string]*definition
	byType      map[reflect.Type]*definition // the newest with a state of the type
	roots       Roots
	unclean     bool     // the term before did not end in good order, and that matters
	alone       bulkhead // of attempts that may end the process

	// open ends when nothing more is to be begun; its cause is the reason.
	open    context.Context
	close   context.CancelCauseFunc
	notice  chan struct{} // has room for one
	expired chan *active
	tasks   sync.WaitGroup
	taking  chan struct{} // has room for one, who takes up runs
	doubt   atomic.Bool   // the answer to that was lost
	back    atomic.Int64  // runs that have turned back
	log     loglimit.Limit

	repeated atomic.Int64 // replies that had been taken before
	dropped  atomic.Int64 // replies that were kept, and not taken

	mu struct {
		sync.Mutex
		runs    map[string]*active       // taken up, and not ended
		left    map[string]bool          // by ID: those that could not be taken up, to be tried again
		more    bool                     // there may be others, for which there was no room
		awaited map[string][]chan Status // by ID: who awaits the end
	}
}

// message is one of the dispatcher.
type message struct {
	name  string
	claim []lockkeys.Request
	serve func(ctx context.Context) error
}

// New begins a term, which ends that of another coordinator of the same name, takes up
// the runs that have not ended, and goes on with them: each with what it keeps, before
// anything else can have it. The error wraps [ErrConfig], is a [*MissingError], or comes
// from the store.
func New(ctx context.Context, cfg Config, definitions ...Registered) (*Coordinator, error) {
	cfg = cfg.withDefaults()
	c := &Coordinator{
		cfg: cfg, definitions: map[pin]*definition{}, newest: map[string]*definition{}, byType: map[reflect.Type]*definition{},
		log: loglimit.Limit{Lines: 10, Every: time.Minute}, notice: make(chan struct{}, 1), expired: make(chan *active), taking: make(chan struct{}, 1),
	}
	c.mu.runs, c.mu.left, c.mu.awaited = map[string]*active{}, map[string]bool{}, map[string][]chan Status{}
	var list []*definition
	for _, r := range definitions {
		list = append(list, r.d)
	}
	if err := cfg.validate(list); err != nil {
		return nil, err
	}
	c.Reader = NewReader(c.cfg.Store.DB(), c.cfg.Name)
	slices.SortFunc(list, func(a, b *definition) int { return cmp.Compare(a.version, b.version) })
	for _, d := range list {
		c.definitions[d.pin()], c.newest[d.name], c.byType[d.state] = d, d, d
	}
	c.roots, _ = rootsOf(list)
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Coordinator) begin(ctx context.Context) (err error) {
	if err := c.cfg.Store.Migrate(ctx, component, steps(c.cfg.Store.Dialect())); err != nil {
		return fmt.Errorf("saga: %w", err)
	}
	if err := c.missing(ctx); err != nil {
		return err
	}
	if c.term, err = c.cfg.Store.Begin(ctx, ordering.Consumer{Name: c.Consumer(), Holder: c.cfg.Holder}); err != nil {
		return fmt.Errorf("saga: %w", err)
	}
	before := c.term.Info().Previous
	c.unclean = before != nil && !before.Ended && c.cfg.MaxCrashes > 0
	c.alone.mu.free = 1
	c.d, err = dispatcher.New(dispatcher.Config[*message]{
		Keys:    func(m *message, claim *lockkeys.Claim) error { claim.Add(m.claim...); return nil },
		Name:    func(m *message) string { return m.name },
		Handler: func(ctx context.Context, m *message) error { return m.serve(ctx) },
		Workers: c.cfg.Workers, Logger: c.cfg.Logger,
		// Steps come behind runs that wait, so these must neither fill the queue nor the
		// window. MaxRuns bounds them.
		MaxPending: math.MaxInt32, Policy: dispatcher.LookAhead(math.MaxInt32),
		// A handler is called again whenever there may be something to do; a run is held as
		// long as it lasts.
		MaxAttempts: math.MaxInt, Backoff: dispatcher.Backoff{Initial: 1, Max: 1, Jitter: -1}, HoldTimeout: math.MaxInt64,
	})
	if err != nil {
		return fmt.Errorf("saga: %w", err)
	}
	c.open, c.close = context.WithCancelCause(context.Background())
	err = c.takeUp(ctx, takenBefore, "") // before anybody else, also when there are more than MaxRuns
	if err == nil {
		err = c.takeUp(ctx, c.cfg.MaxRuns, "")
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	c.tasks.Go(c.watch)
	c.tasks.Go(func() { ordering.Attend(c.open, c.term, c, lookInterval, nil, c.cfg.Logger) })
	return nil
}

// Notify tells the coordinator that a run was committed, so that it does not wait for its
// next poll. It may be called too often, or not at all.
func (c *Coordinator) Notify() {
	select {
	case c.notice <- struct{}{}:
	default:
	}
}

// lookInterval is how often a coordinator looks whether it was taken over, which it
// notices as well with each write.
const lookInterval = time.Second

// noteFenced stops the coordinator if an error says that it was taken over, or that the store
// is closed or has lost data. It reports whether that is so.
func (c *Coordinator) noteFenced(err error) bool {
	over := isIn(err, ordering.ErrFenced, ordering.ErrStoreClosed) || errors.As(err, new(*ordering.LostError))
	if over {
		c.stop(err)
	}
	return over
}

// watch takes up runs that were started, and compensates those whose time is over.
func (c *Coordinator) watch() {
	poll := time.NewTicker(c.cfg.Poll)
	defer poll.Stop()
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	failed := 0
	for {
		select {
		case <-c.open.Done():
			return
		case r := <-c.expired:
			c.tasks.Go(func() { c.expire(r) })
			continue
		case <-look.C:
			c.takeUpLeft()
			_ = c.noteFenced(c.Write(c.open, func(context.Context, *sql.Tx) error { return nil })) // another error shows elsewhere
			continue
		case <-c.notice:
		case <-poll.C:
		}
		started, err := c.started(c.open)
		if err == nil && started {
			err = c.takeUp(c.open, c.cfg.MaxRuns, "")
		}
		switch {
		case c.open.Err() != nil:
		case err == nil:
			failed = 0
		default:
			failed++
			c.warn("saga: runs that were started cannot be taken up yet", "err", err)
			c.pause(c.open, failed)
			c.Notify()
		}
	}
}

// warn logs what may come again and again, ten times a minute at most.
func (c *Coordinator) warn(text string, args ...any) {
	if ok, withheld := c.log.Take(); ok {
		c.cfg.Logger.Warn(text, append(args, "withheld", withheld)...)
	}
}

// pause waits after consecutive failures of the store. It reports whether neither ctx has
// ended nor the coordinator meanwhile.
func (c *Coordinator) pause(ctx context.Context, failed int) bool {
	timer := time.NewTimer(c.cfg.StoreBackoff.Wait(failed))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.open.Done():
	}
	return false
}

// Err returns nil while the coordinator works, and then the reason why not: [ErrClosed],
// or what has stopped it, such as an error that wraps [ordering.ErrFenced], or an
// [*ordering.LostError] if the store has lost its term, or events of the run saga/<id>.
func (c *Coordinator) Err() error {
	if c.open.Err() == nil {
		return nil
	}
	return context.Cause(c.open)
}

// Done returns a channel that is closed when the coordinator is closed, or stops since
// another one has taken over or the store has lost data.
func (c *Coordinator) Done() <-chan struct{} { return c.open.Done() }

// stop ends all work for a reason. What is held is let go, and does nothing more.
func (c *Coordinator) stop(reason error) {
	if c.open.Err() == nil && !errors.Is(reason, ErrClosed) {
		c.cfg.Logger.Error("saga: the coordinator stops", "err", reason)
	}
	c.close(reason)
	c.mu.Lock()
	runs := make([]*active, 0, len(c.mu.runs))
	for _, r := range c.mu.runs {
		runs = append(runs, r)
	}
	c.mu.Unlock()
	for _, r := range runs {
		r.wakeAll()
	}
}

// Shutdown ends the coordinator, and its term: attempts that are under way may end until
// shortly before the deadline of ctx, when their contexts end; no others begin. Runs go
// on where they are when the next coordinator is made. The error is that of ctx if
// attempts are still running at the deadline, or comes from the store.
func (c *Coordinator) Shutdown(ctx context.Context) error {
	c.stop(ErrClosed)
	_, err := c.d.Shutdown(ctx)
	if err != nil {
		return fmt.Errorf("saga: %w", err)
	}
	c.tasks.Wait()
	for range 3 { // a connection that was idle may have been lost
		if err = c.term.End(ctx); !errors.As(err, new(*ordering.StoreError)) {
			break
		}
	}
	if err != nil && !isIn(err, ordering.ErrFenced, ordering.ErrStoreClosed) {
		return fmt.Errorf("saga: %w", err)
	}
	return nil
}

// Close is Shutdown with a deadline in 10 seconds.
func (c *Coordinator) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return c.Shutdown(ctx)
}
