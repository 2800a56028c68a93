package saga

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/internal/loglimit"
	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// Config configures a [Coordinator]. Store is required; the zero value of every other
// field means its default.
type Config struct {
	// Store has the runs. Effects of steps with DoTx are in its database.
	Store *sqlstore.Store
	// Name tells coordinators on one database apart; each has its own runs, and its own
	// lock keys. At most 100 bytes, without spaces and control characters. Default:
	// "default".
	Name string
	// Holder describes the process, for the one that is taken over. Default: the host
	// name and the process ID.
	Holder string
	// Record, if set, is called for each event of each run, see [SagaStarted] and so on,
	// in the transaction that makes it durable, or for SagaStarted in that of Start. Its
	// error undoes that: an error of the caller's own is retried like one of the store.
	// The event has an ID, a type, a time, the run's ID as CorrelationID, the event
	// before it in the run as CausationID, and an [Entry] with the definition as its
	// payload; it has no positions. With an outbox for example:
	//
	//	_, err := box.Enqueue(ctx, tx, e, lockkeys.Must("saga", e.CorrelationID))
	//
	// It may be called more than once for an event, if the transaction before was
	// rolled back.
	Record func(ctx context.Context, tx *sql.Tx, e *ordering.Event) error
	// Workers is the number of attempts, and of functions of Do, that run at the same
	// time. Default: 64.
	Workers int
	// MaxRuns bounds the runs that are taken up, in memory. Others wait in the database,
	// in the order in which they were started. Default: 16,384.
	MaxRuns int
	// Poll is how often the database is asked for runs that were started, without
	// [Coordinator.Notify]. Default: 250 ms.
	Poll time.Duration
	// StoreBackoff is the wait after an error of the store. Default: from 50 ms to 5 s.
	StoreBackoff dispatcher.Backoff
	// Logger gets what an operator should know. Default: slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	settings.Default(&c.Name, "default")
	settings.Default(&c.Workers, 64)
	settings.Default(&c.MaxRuns, 1<<14)
	settings.Default(&c.Poll, 250*time.Millisecond)
	c.StoreBackoff = c.StoreBackoff.WithDefaults(50*time.Millisecond, 5*time.Second)
	c.Logger = safelog.New(c.Logger)
	if c.Record == nil {
		c.Record = func(context.Context, *sql.Tx, *ordering.Event) error { return nil }
	}
	return c
}

func (c Config) validate(definitions []*definition) error {
	var p settings.Problems
	p.Add(c.Store == nil, "Store is nil: open one")
	p.Add(!isName(c.Name, ""), "Name is %.80q: it must have 1 to 100 bytes, without spaces and control characters", c.Name)
	p.Add(c.Workers < 1, "Workers is %d: it must be at least 1", c.Workers)
	p.Add(c.MaxRuns < 1, "MaxRuns is %d: it must be at least 1", c.MaxRuns)
	p.Add(c.Poll < 0, "Poll is %v: it must not be negative", c.Poll)
	wrong := c.StoreBackoff.Validate()
	p.Add(wrong != nil, "Store%w", wrong)
	p.Add(len(definitions) == 0, "no definition is registered: register those of all active runs")
	names, types := map[pin]bool{}, map[reflect.Type]string{}
	for _, d := range definitions {
		p = append(p, d.problems...)
		p.Add(names[d.pin()], "%v is registered twice", d)
		names[d.pin()] = true
		other, taken := types[d.state]
		p.Add(taken && other != d.name, "%v and %s have the same type of state, %v, by which Start finds a definition: give each its own", d, other, d.state)
		types[d.state] = d.name
	}
	_, wrongs := rootsOf(definitions)
	p = append(p, wrongs...)
	return p.Err(ErrConfig)
}

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
	cfg         Config
	term        ordering.Term
	d           *dispatcher.Dispatcher[*message]
	definitions map[pin]*definition
	newest      map[string]*definition
	byType      map[reflect.Type]*definition // the newest with a state of the type
	roots       Roots

	// open ends when nothing more is to be begun; its cause is the reason.
	open    context.Context
	close   context.CancelCauseFunc
	notice  chan struct{} // has room for one
	expired chan *active
	tasks   sync.WaitGroup
	taking  chan struct{} // has room for one, who takes up runs
	doubt   atomic.Bool   // the answer to that was lost
	log     loglimit.Limit

	mu struct {
		sync.Mutex
		runs map[string]*active // taken up, and not ended
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
	c.mu.runs = map[string]*active{}
	var list []*definition
	for _, r := range definitions {
		list = append(list, r.d)
	}
	if err := cfg.validate(list); err != nil {
		return nil, err
	}
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
	if err := c.cfg.Store.Migrate(ctx, component, tables); err != nil {
		return fmt.Errorf("saga: %w", err)
	}
	if err := c.missing(ctx); err != nil {
		return err
	}
	if c.term, err = c.cfg.Store.Begin(ctx, ordering.Consumer{Name: "saga/" + c.cfg.Name, Holder: c.cfg.Holder}); err != nil {
		return fmt.Errorf("saga: %w", err)
	}
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
	if err := c.takeUp(ctx, math.MaxInt32, ""); err != nil {
		return errors.Join(err, c.Close())
	}
	c.tasks.Go(c.watch)
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
// or what has stopped it, such as an error that wraps [ordering.ErrFenced].
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

// Do calls do while it holds the lock keys of a claim, shared or exclusive, as if it were
// a saga of one step: no run that keeps conflicting keys, and no step that takes them, is
// under way meanwhile. It waits for those that came before. The claim has keys of steps,
// or others, but not both, see [Roots]; else the error is a [*KeysError]. The context of
// do ends with ctx.
//
// It waits at most until ctx ends, unless do has begun. The error is that of do, of ctx, or
// of [Coordinator.Err]; in a step it is [dispatcher.ErrNested].
func (c *Coordinator) Do(ctx context.Context, claim func(*lockkeys.Claim), do func(ctx context.Context) error) error {
	var requests []lockkeys.Request
	err := contain.Apart(func() (err error) {
		requests, err = derive(func(c *lockkeys.Claim) error { claim(c); return nil })
		return err
	})
	if err == nil {
		err = c.roots.checkMixed("Do", requests)
	}
	if err != nil {
		return err
	}
	if c.d.Nested(ctx) {
		return dispatcher.ErrNested
	}
	turn := make(chan struct{}, 1) // taken by the message when it begins, or by this call when it gives up
	turn <- struct{}{}
	var result error
	ticket, err := c.d.Go(ctx, &message{name: "a function of Do", claim: requests, serve: func(own context.Context) error {
		select {
		case <-turn:
		default:
			return nil
		}
		if result = c.Err(); result != nil {
			return nil
		}
		own, cancel := context.WithCancelCause(own)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		defer cancel(nil)
		result = contain.Apart(func() error { return do(own) })
		return nil
	}})
	if err != nil {
		return cmp.Or(c.Err(), err)
	}
	if err = ticket.Wait(ctx); ctx.Err() != nil {
		select {
		case <-turn:
			return ctx.Err()
		default:
			<-ticket.Done()
			err = ticket.Err()
		}
	}
	return cmp.Or(result, c.result(err))
}

// result converts the result of a message, which is an error only if it did not run.
func (c *Coordinator) result(err error) error {
	if err == nil {
		return nil
	}
	return cmp.Or(c.Err(), err)
}

// Write runs write in a transaction of the store in the coordinator's term, and commits
// it: it is refused, with an error that wraps [ordering.ErrFenced], once another
// coordinator has taken over. It is for functions of [Coordinator.Do].
func (c *Coordinator) Write(ctx context.Context, write func(ctx context.Context, tx *sql.Tx) error) error {
	return c.cfg.Store.WriteIn(ctx, c.term, write)
}
