package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/interlock-go/interlock/examples/failover/internal/experiment"
)

// parseOptions reads the command line. A mistake in it is described to output,
// or by the error.
func parseOptions(args []string, output io.Writer) (experiment.Config, error) {
	var o experiment.Config
	f := flag.NewFlagSet("failover", flag.ContinueOnError)
	f.SetOutput(output)
	f.Usage = func() {
		fmt.Fprintf(output, "Usage: failover [flags]\n\nKills a RabbitMQ node again and again, and shows what becomes of the events.\n\n")
		f.PrintDefaults()
	}
	f.IntVar(&o.Runs, "runs", 2, "runs with outages")
	f.IntVar(&o.Events, "events", 500, "events of a run")
	f.IntVar(&o.Keys, "keys", 10, "keys, whose events are to stay in order")
	f.IntVar(&o.Workers, "workers", 4, "workers of a consumer")
	f.DurationVar(&o.Every, "every", 10*time.Millisecond, "time from event to event")
	f.DurationVar(&o.Slow, "slow", 400*time.Millisecond, "the same from 100 ms after the broker's death on, until all ways use it again")
	f.DurationVar(&o.Work, "work", 23700*time.Microsecond, "mean time that processing takes")
	f.DurationVar(&o.Spread, "spread", 9400*time.Microsecond, "standard deviation of that")
	f.IntVar(&o.KillMin, "kill-min", 45, "fewest events from kill to kill")
	f.IntVar(&o.KillMax, "kill-max", 60, "most events from kill to kill, if all ways use the broker again by then")
	f.IntVar(&o.Rounds, "rounds", 21, "rounds without outages in which the ways take turns, for the latency, 0 for none")
	f.IntVar(&o.Round, "round", 20, "events of such a round, for each way")
	f.StringVar(&o.Queue, "queue", "quorum", "type of the queues: quorum or classic")
	f.StringVar(&o.Plot, "plot", "", "`file` for a picture of the first run, as SVG")
	f.StringVar(&o.Dir, "dir", "", "`folder` for databases and logs, which are kept (default: a temporary one)")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of keys, processing times and kills")
	f.BoolVar(&o.Verbose, "v", false, "tell of each kill")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, errUsage
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("no arguments are expected, but there is %q", f.Arg(0))
	}
	return o, validate(o)
}

// errUsage: the flag package has said what is wrong.
var errUsage = errors.New("see -help")

func validate(o experiment.Config) error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(o.Runs > 0, "-runs is %d: it must be at least 1", o.Runs)
	need(o.Events > 0, "-events is %d: it must be at least 1", o.Events)
	need(o.Keys > 0, "-keys is %d: it must be at least 1", o.Keys)
	need(o.Workers > 0, "-workers is %d: it must be at least 1", o.Workers)
	need(o.Every > 0, "-every is %v: it must be more than 0", o.Every)
	need(o.Slow >= o.Every, "-slow is %v: it must not be less than -every", o.Slow)
	need(o.Work >= 0 && o.Spread >= 0, "-work and -spread must not be negative")
	need(o.KillMin > 0 && o.KillMin <= o.KillMax, "-kill-min and -kill-max are %d and %d: they must be at least 1, and in order", o.KillMin, o.KillMax)
	need(o.Rounds >= 0, "-rounds is %d: it must not be negative", o.Rounds)
	need(o.Round > 0, "-round is %d: it must be at least 1", o.Round)
	need(o.Queue == "quorum" || o.Queue == "classic", "-queue is %q: it must be quorum or classic", o.Queue)
	return errors.Join(errs...)
}
