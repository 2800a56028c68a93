// Failover kills a RabbitMQ node again and again while events are sent through
// it, and shows what becomes of them: sent as usual, and with Interlock, over
// HTTP while the node is down. It is the experiment of "Method for ordered
// parallel event delivery in microservice systems using RabbitMQ, HTTP backup
// channels, and Saga pattern", on a real broker. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/interlock-go/interlock/examples/failover/internal/measure"
	"github.com/interlock-go/interlock/internal/rabbittest"
)

// Exit codes.
const (
	exitGood  = 0 // with Interlock nothing was lost, doubled or out of order
	exitBad   = 1 // something was, or the experiment failed
	exitUsage = 2 // the command line makes no sense
)

func main() {
	if os.Getenv(childVariable) != "" {
		os.Exit(beChild(os.Stdin, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program, with all that it reads and writes given to it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitGood
	case err != nil:
		fmt.Fprintln(stderr, "failover:", err)
		return exitUsage
	}
	good, err := o.act(ctx, stdout)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "failover:", err)
		return exitBad
	case !good:
		return exitBad
	}
	return exitGood
}

// act does what the options say; good is false if an event was lost, doubled or
// out of order with Interlock.
func (o *options) act(ctx context.Context, out io.Writer) (good bool, err error) {
	began := time.Now()
	o.introduce(out)
	dir, remove, err := o.folder()
	if err != nil {
		return false, err
	}
	defer remove()
	node, err := rabbittest.New()
	if err != nil {
		return false, fmt.Errorf("starting RabbitMQ: %w", err)
	}
	defer node.Close()
	x := &experiment{options: o, broker: newBroker(node), dir: dir, random: rand.New(rand.NewPCG(o.seed, 0)), out: out}
	table, first, err := x.all(ctx)
	if err != nil {
		return false, err
	}
	fmt.Fprintln(out)
	if err := table.Write(out); err != nil {
		return false, err
	}
	fmt.Fprintln(out)
	lines, good := table.Verdicts()
	for _, l := range lines {
		fmt.Fprintln(out, l)
	}
	fmt.Fprintf(out, "\ntook %v\n", time.Since(began).Round(time.Second))
	return good, o.draw(first)
}

// folder returns where databases and logs are to be.
func (o *options) folder() (dir string, remove func(), err error) {
	if o.dir != "" {
		return o.dir, func() {}, os.MkdirAll(o.dir, 0o700)
	}
	dir, err = os.MkdirTemp("", "failover")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// introduce says what is done, and what differs from the published experiment.
func (o *options) introduce(out io.Writer) {
	fmt.Fprintf(out, `%d runs of %d events, %d keys, %d workers; an event every %v; processing takes %v ± %v.
A RabbitMQ node of its own is killed with kill -9 every %d to %d events and started again %v later;
each way has a producer and a consumer process, a %s queue and SQLite databases, and all have the same events and outages.
Scaled: from %v after a kill until all ways use the broker again there is an event every %v only, or nearly all would go over HTTP.
Published figures are of a simulation, whose broker takes 20 ms and whose HTTP takes 52 ms per event; here both take what they take.

`, o.runs, o.events, o.keys, o.workers, o.every, o.work, o.spread, o.killMin, o.killMax, restartDelay, o.queue, rush, o.slow)
}

// all makes all measurements, and returns the first run of each way as well.
func (x *experiment) all(ctx context.Context) (_ *measure.Table, first []measure.Run, err error) {
	if err := x.start(ctx); err != nil {
		return nil, nil, err
	}
	defer func() { killAll(x.ways) }()
	t := &measure.Table{}
	if x.rounds > 0 {
		fmt.Fprintf(x.out, "latency in normal operation: %d rounds of %d events, twice\n", x.rounds, x.round)
		if t.InTurn, err = x.compare(ctx, x.inTurn); err != nil {
			return nil, nil, err
		}
		if t.Random, err = x.compare(ctx, x.atRandom); err != nil {
			return nil, nil, err
		}
	}
	runs := make([][]measure.Run, len(kinds))
	for i := range x.runs {
		list, err := x.outages(ctx)
		if err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(x.out, "run %d: %s\n", i+1, describe(list[0].Outages))
		for j, r := range list {
			runs[j] = append(runs[j], r)
		}
	}
	for j, k := range kinds {
		t.Columns = append(t.Columns, measure.Column{Name: k.name, Outages: measure.Of(runs[j]...)})
		first = append(first, runs[j][0])
	}
	return t, first, endAll(x.ways)
}

func describe(outages []measure.Outage) string {
	if len(outages) == 0 {
		return "no outages: make it longer, or -kill-min and -kill-max smaller"
	}
	var list []time.Duration
	for _, o := range outages {
		list = append(list, o.Back.Sub(o.Died))
	}
	mean := time.Duration(measure.Mean(list))
	return fmt.Sprintf("%d outages of %v on average", len(outages), mean.Round(100*time.Millisecond))
}
