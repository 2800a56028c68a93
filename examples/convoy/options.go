package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/examples/convoy/internal/conductor"
	"github.com/interlock-go/interlock/examples/convoy/internal/ledger"
	"github.com/interlock-go/interlock/examples/convoy/internal/site"
)

// asConductor is what -as is by default: the conductor of a whole run, which starts all others.
const asConductor = "conductor"

// options is the command line.
type options struct {
	site.Site
	as      string
	name    string
	home    []int
	leashed bool

	handlers int
	latency  time.Duration

	ledger  ledger.Shape
	workers int
	steady  bool
}

// parseOptions reads the command line. A mistake in it is described to output,
// or by the error.
func parseOptions(args []string, output io.Writer) (*options, error) {
	o := &options{}
	var home string
	f := flag.NewFlagSet("convoy", flag.ContinueOnError)
	f.SetOutput(output)
	f.Usage = func() {
		fmt.Fprintf(output, "Usage: convoy [flags]\n\nRuns a sequential convoy: a ledger of many orders, worked off in order by processes that come and go.\n\n")
		f.PrintDefaults()
	}
	f.StringVar(&o.as, "as", asConductor, "what to be: the conductor of a whole run, which starts all others; one ledger processor; or one worker")
	f.StringVar(&o.name, "name", "", "`name` of this process (default: what it is)")
	f.StringVar(&o.DB, "db", "", "`URL` of a PostgreSQL database, postgres://... (default: a server of the program's own)")
	f.StringVar(&o.AMQP, "amqp", "", "`URL` of a RabbitMQ broker, amqp://... (default: a node of the program's own)")
	f.StringVar(&o.Prefix, "prefix", "convoy", "what the names of the queues begin with")
	f.IntVar(&o.Queues, "queues", 4, "number of partitions, each with a queue; the same in all processes")
	f.StringVar(&home, "home", "", "`partitions` that a worker waits in line for at once, such as 0,2; for the others a moment later")
	f.BoolVar(&o.leashed, "leashed", false, "end when the standard input does")
	f.IntVar(&o.handlers, "handlers", 8, "transactions of a queue that a worker runs at the same time, at most")
	f.DurationVar(&o.latency, "latency", 2*time.Millisecond, "let each transaction wait this long, as if for another service")
	f.IntVar(&o.ledger.Orders, "orders", 400, "number of orders in the ledger")
	f.IntVar(&o.ledger.Length, "length", 20, "transactions of an order, about")
	f.IntVar(&o.ledger.Ledgers, "ledgers", 10, "ledger messages that the transactions come in")
	f.Uint64Var(&o.ledger.Seed, "seed", 1, "seed of the ledger: the same seed makes the same one")
	f.IntVar(&o.workers, "workers", 3, "workers that the conductor begins with")
	f.BoolVar(&o.steady, "steady", false, "let no worker come or go")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, errors.New("see -help")
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag", f.Arg(0))
	}
	if o.name == "" {
		o.name = o.as
	}
	o.ledger.Queues = o.Queues
	if err := o.parseHome(home); err != nil {
		return nil, err
	}
	return o, o.check()
}

func (o *options) parseHome(text string) error {
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		i, err := strconv.Atoi(part)
		if err != nil || i < 0 || i >= o.Queues {
			return fmt.Errorf("-home %q: %q is not a partition: they are 0 to %d", text, part, o.Queues-1)
		}
		o.home = append(o.home, i)
	}
	return nil
}

// check refuses what makes no sense.
func (o *options) check() error {
	switch {
	case o.as != asConductor && o.as != conductor.AsProcessor && o.as != conductor.AsWorker:
		return fmt.Errorf("-as %q is not known: use %s, %s or %s", o.as, asConductor, conductor.AsProcessor, conductor.AsWorker)
	case o.as != asConductor && (o.DB == "" || o.AMQP == ""):
		return fmt.Errorf("a %s needs -db and -amqp: it shares them with the other processes", o.as)
	case o.Prefix == "":
		return errors.New("-prefix is empty: give the queues a name")
	case o.Queues < 1 || o.Queues > mostQueues:
		return fmt.Errorf("-queues is %d: use 1 to %d", o.Queues, mostQueues)
	case o.handlers < 1:
		return fmt.Errorf("-handlers is %d: use 1 or more", o.handlers)
	case o.latency < 0:
		return fmt.Errorf("-latency is %v: use 0 or more", o.latency)
	case o.ledger.Orders < 2 || o.ledger.Length < 1 || o.ledger.Ledgers < 1:
		return errors.New("a ledger has -orders of 2 or more, and -length and -ledgers of 1 or more")
	case o.workers < 1:
		return fmt.Errorf("-workers is %d: use 1 or more", o.workers)
	}
	return nil
}

// mostQueues keeps the connections to the broker few: a worker has one for
// each queue.
const mostQueues = 64
