package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/interlock-go/interlock/examples/convoy/internal/conductor"
)

// Exit codes.
const (
	exitGood  = 0 // it did what it was to do, and every check held
	exitBad   = 1 // something did not
	exitUsage = 2 // the command line makes no sense
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends the process at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program, with all that it reads and writes given to it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitGood
	case err != nil:
		fmt.Fprintln(stderr, "convoy:", err)
		return exitUsage
	}
	o.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})).With("process", o.name)
	if err := o.act(ctx, stdin, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "convoy: %s: %v\n", o.name, err)
		return exitBad
	}
	return exitGood
}

// act does what the options say.
func (o *options) act(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	switch o.as {
	case conductor.AsProcessor:
		return o.process(o.leash(ctx, stdin))
	case conductor.AsWorker:
		return o.work(o.leash(ctx, stdin))
	}
	return conductor.Run(ctx, o.convoy(), stdout, stderr)
}

// convoy is what the conductor is to run.
func (o *options) convoy() conductor.Config {
	return conductor.Config{Site: o.Site, Ledger: o.ledger, Workers: o.workers, Steady: o.steady,
		Flags: []string{"-handlers", strconv.Itoa(o.handlers), "-latency", o.latency.String()}}
}

// leash returns a context that also ends with the input, if the process is on
// a leash: when whoever started it is gone.
func (o *options) leash(ctx context.Context, stdin io.Reader) context.Context {
	if !o.leashed {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() { // until the process ends
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	return ctx
}
