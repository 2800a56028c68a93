package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

// options is the command line.
type options struct {
	runs, events     int
	keys, workers    int
	every, slow      time.Duration
	work, spread     time.Duration
	killMin, killMax int
	rounds, round    int
	queue            string
	plot, dir        string
	seed             uint64
	verbose          bool
}

// parseOptions reads the command line. A mistake in it is described to output,
// or by the error.
func parseOptions(args []string, output io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("failover", flag.ContinueOnError)
	f.SetOutput(output)
	f.Usage = func() {
		fmt.Fprintf(output, "Usage: failover [flags]\n\nKills a RabbitMQ node again and again, and shows what becomes of the events.\n\n")
		f.PrintDefaults()
	}
	f.IntVar(&o.runs, "runs", 2, "runs with outages")
	f.IntVar(&o.events, "events", 500, "events of a run")
	f.IntVar(&o.keys, "keys", 10, "keys, whose events are to stay in order")
	f.IntVar(&o.workers, "workers", 4, "workers of a consumer")
	f.DurationVar(&o.every, "every", 10*time.Millisecond, "time from event to event")
	f.DurationVar(&o.slow, "slow", 400*time.Millisecond, "the same from 100 ms after the broker's death on, until all ways use it again")
	f.DurationVar(&o.work, "work", 23700*time.Microsecond, "mean time that processing takes")
	f.DurationVar(&o.spread, "spread", 9400*time.Microsecond, "standard deviation of that")
	f.IntVar(&o.killMin, "kill-min", 45, "fewest events from kill to kill")
	f.IntVar(&o.killMax, "kill-max", 60, "most events from kill to kill, if all ways use the broker again by then")
	f.IntVar(&o.rounds, "rounds", 21, "rounds without outages in which the ways take turns, for the latency, 0 for none")
	f.IntVar(&o.round, "round", 20, "events of such a round, for each way")
	f.StringVar(&o.queue, "queue", "quorum", "type of the queues: quorum or classic")
	f.StringVar(&o.plot, "plot", "", "`file` for a picture of the first run, as SVG")
	f.StringVar(&o.dir, "dir", "", "`folder` for databases and logs, which are kept (default: a temporary one)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of keys, processing times and kills")
	f.BoolVar(&o.verbose, "v", false, "tell of each kill")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, errUsage
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("no arguments are expected, but there is %q", f.Arg(0))
	}
	return o, o.validate()
}

// errUsage: the flag package has said what is wrong.
var errUsage = errors.New("see -help")

func (o *options) validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(o.runs > 0, "-runs is %d: it must be at least 1", o.runs)
	need(o.events > 0, "-events is %d: it must be at least 1", o.events)
	need(o.keys > 0, "-keys is %d: it must be at least 1", o.keys)
	need(o.workers > 0, "-workers is %d: it must be at least 1", o.workers)
	need(o.every > 0, "-every is %v: it must be more than 0", o.every)
	need(o.slow >= o.every, "-slow is %v: it must not be less than -every", o.slow)
	need(o.work >= 0 && o.spread >= 0, "-work and -spread must not be negative")
	need(o.killMin > 0 && o.killMin <= o.killMax, "-kill-min and -kill-max are %d and %d: they must be at least 1, and in order", o.killMin, o.killMax)
	need(o.rounds >= 0, "-rounds is %d: it must not be negative", o.rounds)
	need(o.round > 0, "-round is %d: it must be at least 1", o.round)
	need(o.queue == "quorum" || o.queue == "classic", "-queue is %q: it must be quorum or classic", o.queue)
	return errors.Join(errs...)
}
