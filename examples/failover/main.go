// Failover kills a RabbitMQ node again and again while events are sent through
// it, and shows what becomes of them: sent as usual, and with Interlock, over
// HTTP while the node is down. It is the experiment of "Method for ordered
// parallel event delivery in microservice systems using RabbitMQ, HTTP backup
// channels, and Saga pattern", on a real broker. See README.md.
//
// The way of this library is in producer.go and consumer.go: the producer has an outbox, which
// numbers the events of each key, and sends them through RabbitMQ or, while that is down, over
// HTTP; the consumer puts both channels into one sequencer, which asks the outbox for what
// neither has brought. The other ways are in internal/plain, and what kills the broker and
// measures in internal/experiment.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/interlock-go/interlock/examples/failover/internal/experiment"
)

// Exit codes.
const (
	exitGood  = 0 // with Interlock nothing was lost, doubled or out of order
	exitBad   = 1 // something was, or the experiment failed
	exitUsage = 2 // the command line makes no sense
)

func main() {
	if os.Getenv(experiment.ChildVariable) != "" {
		os.Exit(beChild(os.Stdin, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends the program at once
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
	good, err := o.Run(ctx, stdout)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "failover:", err)
		return exitBad
	case !good:
		return exitBad
	}
	return exitGood
}
