// Ledger is an account service on Interlock: it reads messages that open
// accounts, move money, check credit or close the day, runs them in parallel
// over an embedded database, and shows that the result is the same as one
// after the other. See README.md; the way of a message is drawn at package service.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"syscall"

	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/madeup"
)

// Exit codes.
const (
	exitGood  = 0 // all messages ended as they should, and every check held
	exitBad   = 1 // something did not
	exitUsage = 2 // the command line is wrong
)

//go:embed message.schema.json
var messageSchema string

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // there is little to keep, and much that is short-lived
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends the program at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program, with all that it reads and writes given to it. Tests may set
// options that have no flag.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, set ...func(*options)) int {
	o, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitGood
	case err != nil:
		fmt.Fprintln(stderr, "ledger:", redacted(err.Error()))
		return exitUsage
	}
	for _, f := range set {
		f(o)
	}
	good, err := o.act(ctx, stdin, stdout, stderr)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "ledger:", redacted(err.Error()))
		return exitBad
	case !good:
		return exitBad
	}
	return exitGood
}

// secrets are where passwords stand in what names a server.
var secrets = regexp.MustCompile(`(://[^/?#@\s"]*:)[^/?#\s"]+(@)|((?i:password|passwd|pwd)\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&"]+)`)

// redacted returns a text without the passwords that it names servers with,
// wherever on the command line those were given.
func redacted(text string) string { return secrets.ReplaceAllString(text, "${1}${3}xxxxx${2}") }

// act does what the options say; good is false if the summary reports a failure.
func (o *options) act(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (good bool, err error) {
	switch {
	case o.schema:
		_, err := io.WriteString(stdout, messageSchema)
		return true, err
	case o.generate == generateNDJSON:
		return true, feed.WriteNDJSON(stdout, madeup.New(o.messages, o.seed))
	case o.generate == generateJournal:
		return true, madeup.WriteJournal(stdout, madeup.New(o.messages, o.seed))
	case o.produce:
		return o.send(ctx, stdout, stderr)
	case o.amqp != "":
		return o.consume(ctx, stdout, stderr)
	case o.listen != "":
		return o.serve(ctx, stdout, stderr)
	default:
		return o.replay(ctx, stdin, stdout, stderr)
	}
}
