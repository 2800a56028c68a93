// Command interlock-operator looks at the database of a service that uses Interlock, and lets
// a person decide what becomes of parked events and sagas, beside the service, which does not
// notice that somebody looks:
//
//	go install github.com/interlock-go/interlock/replay/interlock-operator@latest
//	interlock-operator -db ledger.db list
//	interlock-operator -db ledger.db skip "client/42/account/7=813 @5JKJIPEJ7O53LRRUXTMEM4XE4Y" -why "case 17: paid by hand"
//
// It changes nothing by itself but leaves requests in the database, which the service
// carries out within a second, or when it starts: see sqlstore.Operator. The password of a
// PostgreSQL database is better in PGPASSWORD or a passfile than in the URL.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the program with arguments, and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if err == nil {
		err = o.run(ctx, stdout)
	}
	var wrong *usageError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errHelp):
		fmt.Fprint(stdout, usage)
		return exitDone
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "interlock-operator: %v; see interlock-operator -help\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "interlock-operator: %v\n", err)
	return exitFailed
}
