package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/rabbittest"
)

// conductor runs a whole convoy: it has others do the work, makes some of them
// leave and others join, and looks at what came of it.
type conductor struct {
	*options
	script    *script
	db        *sql.DB
	stderr    io.Writer
	children  []*child  // all that were started
	processor *child    // the one at work
	workers   []*child  // those at work, longest first
	began     time.Time // with the first ledger message
	ended     time.Time // when all transactions were applied
}

// conduct runs a convoy from the first ledger message to the summary.
func (o *options) conduct(ctx context.Context, stdout, stderr io.Writer) (err error) {
	end, err := o.startServers()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	store, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c := &conductor{options: o, script: o.write(), db: store.DB(), stderr: &syncWriter{w: stderr}}
	if err := c.requireEmpty(ctx); err != nil {
		return err
	}
	if err := c.perform(ctx); err != nil {
		return err
	}
	r, err := c.look(ctx, store)
	if err != nil {
		return err
	}
	r.write(stdout)
	return r.failure()
}

// startServers starts the servers that no URL was given for. end ends them.
func (o *options) startServers() (end func() error, err error) {
	end = func() error { return nil }
	if o.db == "" {
		server, err := pgtest.New()
		if err != nil {
			return nil, fmt.Errorf("%w; or give the URL of a database with -db", err)
		}
		end = func() error { server.Close(); return nil }
		if o.db, err = server.NewDatabase(); err != nil {
			return nil, errors.Join(err, end())
		}
	}
	if o.amqp == "" {
		node, err := rabbittest.New()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w; or give the URL of a broker with -amqp", err), end())
		}
		endDatabase := end
		end = func() error { return errors.Join(node.Close(), endDatabase()) }
		o.amqp = node.URL()
	}
	return end, nil
}

// requireEmpty refuses a database or queues in which there was a convoy before:
// its orders have numbers already. It declares the queues, so that they are not
// quite new when the first messages come.
func (c *conductor) requireEmpty(ctx context.Context) error {
	var terms int
	if err := c.db.QueryRowContext(ctx, `SELECT count(*) FROM convoy_terms`).Scan(&terms); err != nil {
		return err
	}
	if err := c.withChannel(ctx, c.endpoint().Topology.Declare); err != nil {
		return err
	}
	counts, err := c.waiting(ctx, c.queueNames()...)
	if err != nil {
		return err
	}
	if terms > 0 || slices.Max(counts) > 0 {
		return errors.New("there are orders of an earlier run: give an empty database with -db, and other queues with -prefix")
	}
	return nil
}

// perform runs the convoy until every transaction was applied and everybody has
// gone home.
func (c *conductor) perform(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			c.killAll()
		}
	}()
	if err := c.startProcessor("processor-1"); err != nil {
		return err
	}
	for i := range c.options.workers {
		if err := c.join(i); err != nil {
			return err
		}
	}
	if err := c.publishLedgers(ctx, c.script.ledgers); err != nil {
		return err
	}
	c.began = time.Now()
	for _, step := range c.plan() {
		if err := c.await(ctx, c.applied, int(step.at*float64(c.script.runs()))); err != nil {
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
func (c *conductor) killAll() {
	for _, child := range c.children {
		_ = child.kill() // it may have ended
	}
}

func (c *conductor) startProcessor(name string) (err error) {
	if c.processor, err = c.start(c.stderr, asProcessor, name, nil); err == nil {
		c.children = append(c.children, c.processor)
	}
	return err
}

// join starts a worker. Its home are those partitions whose number has the
// remainder i; another one may have been at home there before.
func (c *conductor) join(i int) error {
	var home []int
	for partition := i % c.options.workers; partition < c.queues; partition += c.options.workers {
		home = append(home, partition)
	}
	worker, err := c.start(c.stderr, asWorker, fmt.Sprintf("worker-%d", i+1), home)
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
func (c *conductor) plan() []step {
	end := step{1, func() error { return nil }}
	if c.steady {
		return []step{end}
	}
	n := c.options.workers
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
func (c *conductor) firstWorker() *child {
	first := c.workers[0]
	c.workers = c.workers[1:]
	return first
}

func (c *conductor) replaceProcessor() error {
	return errors.Join(c.processor.kill(), c.startProcessor("processor-2"))
}

func (c *conductor) killWorker() error { return c.firstWorker().kill() }
func (c *conductor) stopWorker() error { return c.firstWorker().stop(stopped) }

// lookEvery is how often the conductor looks whether it is time for a step.
const lookEvery = 50 * time.Millisecond

// await waits until a count has come that far.
func (c *conductor) await(ctx context.Context, count func(context.Context) (int, error), enough int) error {
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
		if err := pause(ctx, lookEvery); err != nil {
			return fmt.Errorf("cut off with %d of %d: %w", n, enough, err)
		}
	}
}

// applied counts the runs that had an effect, those of a move twice.
func (c *conductor) applied(ctx context.Context) (n int, err error) {
	err = c.db.QueryRowContext(ctx, `SELECT count(*) FROM convoy_runs`).Scan(&n)
	return n, err
}

// straggler is the transaction that comes too late.
const straggler = "straggler"

// sendLate sends a transaction for an order that has ended straight to its
// queue, past the processor, and waits until it is found among the dead letters.
func (c *conductor) sendLate(ctx context.Context) error {
	order := c.script.orders[c.script.late.String()]
	e, err := transaction{ID: straggler, Op: add, Order: order.stream.String()}.event()
	if err != nil {
		return err
	}
	e.Positions[0].Number = uint64(len(order.history)) + 1
	if err := c.publish(ctx, c.partitions().Route, e); err != nil {
		return err
	}
	return c.await(ctx, func(ctx context.Context) (int, error) {
		dead, err := c.waiting(ctx, c.deadQueue())
		if err != nil {
			return 0, err
		}
		return dead[0], nil
	}, 1)
}
