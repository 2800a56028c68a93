// Package conductor starts the processes of a convoy, lets some come and go, and looks at what
// came of it.
package conductor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/interlock-go/interlock/examples/convoy/internal/ledger"
	"github.com/interlock-go/interlock/examples/convoy/internal/site"
	"github.com/interlock-go/interlock/internal/pause"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/rabbittest"
)

// Config says what convoy there is to be.
type Config struct {
	Site    site.Site // with a server of its own for each URL that is empty
	Ledger  ledger.Shape
	Workers int      // at the beginning
	Steady  bool     // no worker comes or goes
	Flags   []string // of the workers, besides those that say where they are
}

// What the flag -as of a process takes.
const (
	AsProcessor = "processor"
	AsWorker    = "worker"
)

// Conductor runs a whole convoy: it has others do the work, makes some of them
// leave and others join, and looks at what came of it.
type Conductor struct {
	Config
	Script    *ledger.Script
	db        *sql.DB
	stderr    io.Writer
	children  []*child  // all that were started
	processor *child    // the one at work
	workers   []*child  // those at work, longest first
	began     time.Time // with the first ledger message
	ended     time.Time // when all transactions were applied
}

// Run runs a convoy from the first ledger message to the summary, which it writes to stdout.
// The error says as well if something was not as it must be.
func Run(ctx context.Context, cfg Config, stdout, stderr io.Writer) (err error) {
	end, err := startServers(&cfg.Site)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	store, err := cfg.Site.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c := New(cfg, store.DB(), stderr)
	if err := c.Perform(ctx); err != nil {
		return err
	}
	r, err := c.Look(ctx, store)
	if err != nil {
		return err
	}
	r.Write(stdout)
	return r.Failure()
}

// New returns a conductor with a database of the site. What the processes say of problems goes
// to stderr.
func New(cfg Config, db *sql.DB, stderr io.Writer) *Conductor {
	return &Conductor{Config: cfg, Script: cfg.Ledger.Write(), db: db, stderr: &syncWriter{w: stderr}}
}

// startServers starts the servers that no URL was given for. end ends them.
func startServers(s *site.Site) (end func() error, err error) {
	end = func() error { return nil }
	if s.DB == "" {
		server, err := pgtest.New()
		if err != nil {
			return nil, fmt.Errorf("%w; or give the URL of a database with -db", err)
		}
		end = func() error { server.Close(); return nil }
		if s.DB, err = server.NewDatabase(); err != nil {
			return nil, errors.Join(err, end())
		}
	}
	if s.AMQP == "" {
		node, err := rabbittest.New()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w; or give the URL of a broker with -amqp", err), end())
		}
		endDatabase := end
		end = func() error { return errors.Join(node.Close(), endDatabase()) }
		s.AMQP = node.URL()
	}
	return end, nil
}

// requireEmpty refuses a database or queues in which there was a convoy before:
// its orders have numbers already. It declares the queues, so that they are not
// quite new when the first messages come.
func (c *Conductor) requireEmpty(ctx context.Context) error {
	var terms int
	if err := c.db.QueryRowContext(ctx, `SELECT count(*) FROM convoy_terms`).Scan(&terms); err != nil {
		return err
	}
	if err := c.Site.WithChannel(ctx, c.Site.Endpoint().Topology.Declare); err != nil {
		return err
	}
	counts, err := c.Site.Waiting(ctx, c.Site.QueueNames()...)
	if err != nil {
		return err
	}
	if terms > 0 || slices.Max(counts) > 0 {
		return errors.New("there are orders of an earlier run: give an empty database with -db, and other queues with -prefix")
	}
	return nil
}

// Perform runs the convoy until every transaction was applied and everybody has
// gone home.
func (c *Conductor) Perform(ctx context.Context) (err error) {
	if err := c.requireEmpty(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			c.killAll()
		}
	}()
	if err := c.startProcessor("processor-1"); err != nil {
		return err
	}
	for i := range c.Workers {
		if err := c.join(i); err != nil {
			return err
		}
	}
	if err := c.Site.PublishLedgers(ctx, c.Script.Ledgers); err != nil {
		return err
	}
	c.began = time.Now()
	for _, step := range c.plan() {
		if err := c.await(ctx, c.applied, int(step.at*float64(c.Script.Runs()))); err != nil {
			return err
		}
		if err := step.do(); err != nil {
			return err
		}
	}
	c.ended = time.Now()
	if err := c.sendLate(ctx); err != nil {
		return err
	}
	for _, child := range c.children {
		if child.left == "" {
			err = errors.Join(err, child.stop(stayed))
		}
	}
	return err
}

// killAll ends what still runs, when the convoy has failed.
func (c *Conductor) killAll() {
	for _, child := range c.children {
		_ = child.kill() // it may have ended
	}
}

func (c *Conductor) startProcessor(name string) (err error) {
	if c.processor, err = c.start(c.stderr, AsProcessor, name, nil); err == nil {
		c.children = append(c.children, c.processor)
	}
	return err
}

// join starts a worker. Its home are those partitions whose number has the
// remainder i; another one may have been at home there before.
func (c *Conductor) join(i int) error {
	var home []int
	for partition := i % c.Workers; partition < c.Site.Queues; partition += c.Workers {
		home = append(home, partition)
	}
	worker, err := c.start(c.stderr, AsWorker, fmt.Sprintf("worker-%d", i+1), home)
	if err != nil {
		return err
	}
	c.children = append(c.children, worker)
	c.workers = append(c.workers, worker)
	return nil
}

// step is something that happens when a share of the transactions is applied.
type step struct {
	at float64
	do func() error
}

// plan is who comes and goes. The processor is killed and replaced. Three
// workers join, and after each of them the one that has been there longest
// leaves: the first is killed, the others leave in good order. The last step is
// the end.
func (c *Conductor) plan() []step {
	end := step{1, func() error { return nil }}
	if c.Steady {
		return []step{end}
	}
	n := c.Workers
	return []step{
		{0.05, c.replaceProcessor},
		{0.10, func() error { return c.join(n) }},
		{0.20, c.killWorker},
		{0.35, func() error { return c.join(n + 1) }},
		{0.45, c.stopWorker},
		{0.60, func() error { return c.join(n + 2) }},
		{0.70, c.stopWorker},
		end,
	}
}

// firstWorker takes the worker that has been there longest from the list.
func (c *Conductor) firstWorker() *child {
	first := c.workers[0]
	c.workers = c.workers[1:]
	return first
}

func (c *Conductor) replaceProcessor() error {
	return errors.Join(c.processor.kill(), c.startProcessor("processor-2"))
}

func (c *Conductor) killWorker() error { return c.firstWorker().kill() }
func (c *Conductor) stopWorker() error { return c.firstWorker().stop(stopped) }

// lookEvery is how often the conductor looks whether it is time for a step.
const lookEvery = 50 * time.Millisecond

// await waits until a count has come that far.
func (c *Conductor) await(ctx context.Context, count func(context.Context) (int, error), enough int) error {
	for {
		n, err := count(ctx)
		if err != nil {
			return err
		}
		if n >= enough {
			return nil
		}
		for _, child := range c.children {
			if err := child.fault(); err != nil {
				return err
			}
		}
		if err := pause.For(ctx, lookEvery); err != nil {
			return fmt.Errorf("cut off with %d of %d: %w", n, enough, err)
		}
	}
}

// applied counts the runs that had an effect, those of a move twice.
func (c *Conductor) applied(ctx context.Context) (n int, err error) {
	err = c.db.QueryRowContext(ctx, `SELECT count(*) FROM convoy_runs`).Scan(&n)
	return n, err
}

// straggler is the transaction that comes too late.
const straggler = "straggler"

// sendLate sends a transaction for an order that has ended straight to its
// queue, past the processor, and waits until it is found among the dead letters.
func (c *Conductor) sendLate(ctx context.Context) error {
	order := c.Script.Orders[c.Script.Late.String()]
	e, err := ledger.Transaction{ID: straggler, Op: ledger.Add, Order: order.Stream.String()}.Event()
	if err != nil {
		return err
	}
	e.Positions[0].Number = uint64(len(order.History)) + 1
	if err := c.Site.Publish(ctx, c.Site.Partitions().Route, e); err != nil {
		return err
	}
	return c.await(ctx, func(ctx context.Context) (int, error) {
		dead, err := c.Site.Waiting(ctx, c.Site.DeadQueue())
		if err != nil {
			return 0, err
		}
		return dead[0], nil
	}, 1)
}
