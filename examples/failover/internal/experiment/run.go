package experiment

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/interlock-go/interlock/examples/failover/internal/measure"
	"github.com/interlock-go/interlock/internal/rabbittest"
)

// Run makes all measurements, writes what came of them to out, and draws the picture, if one
// is wanted; good is false if an event was lost, doubled or out of order with Interlock.
func (o Config) Run(ctx context.Context, out io.Writer) (good bool, err error) {
	began := time.Now()
	if err := o.canDraw(); err != nil {
		return false, err
	}
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
	x := &experiment{Config: o, broker: newBroker(node), dir: dir, random: rand.New(rand.NewPCG(o.Seed, 0)), out: out}
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
func (o Config) folder() (dir string, remove func(), err error) {
	if o.Dir != "" {
		return o.Dir, func() {}, os.MkdirAll(o.Dir, 0o700)
	}
	dir, err = os.MkdirTemp("", "failover")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// introduce says what is done, and what differs from the published experiment.
func (o Config) introduce(out io.Writer) {
	fmt.Fprintf(out, `%d runs of %d events, %d keys, %d workers; an event every %v; processing takes %v ± %v.
A RabbitMQ node of its own is killed with kill -9 every %d to %d events and started again %v later;
each way has a producer and a consumer process, a %s queue and SQLite databases, and all have the same events and outages.
Scaled: from %v after a kill until all ways use the broker again there is an event every %v only, or nearly all would go over HTTP.
Published figures are of a simulation, whose broker takes 20 ms and whose HTTP takes 52 ms per event; here both take what they take.

`, o.Runs, o.Events, o.Keys, o.Workers, o.Every, o.Work, o.Spread, o.KillMin, o.KillMax, restartDelay, o.Queue, rush, o.Slow)
}

// all makes all measurements, and returns the first run of each way as well.
func (x *experiment) all(ctx context.Context) (_ *measure.Table, first []measure.Run, err error) {
	if err := x.start(ctx); err != nil {
		return nil, nil, err
	}
	defer func() { killAll(x.ways) }()
	t := &measure.Table{}
	if x.Rounds > 0 {
		fmt.Fprintf(x.out, "latency in normal operation: %d rounds of %d events, twice\n", x.Rounds, x.Round)
		if t.InTurn, err = x.compare(ctx, x.inTurn); err != nil {
			return nil, nil, err
		}
		if t.Random, err = x.compare(ctx, x.atRandom); err != nil {
			return nil, nil, err
		}
	}
	runs := make([][]measure.Run, len(kinds))
	for i := range x.Runs {
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
