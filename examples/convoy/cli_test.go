package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/convoy/internal/conductor"
	"github.com/interlock-go/interlock/examples/convoy/internal/ledger"
)

// convoy runs the program.
func convoy(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// Without any flags that name servers the program has its own.
func TestWithItsOwnServers(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := convoy(t.Context(), "-steady", "-orders", "20", "-length", "4", "-workers", "2", "-queues", "2")
	require.Equal(t, exitGood, code, stderr)
	assert.Contains(t, stdout, "20 orders came in 10 ledger messages and were fanned out into 2 queues")
	assert.NotContains(t, stdout, "NO ")
}

// Orders that are left in a queue would be taken for those of this run.
func TestQueuesOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	o.send(t, numbered{ledger.Transaction{ID: "create", Op: ledger.Create, Order: order}, 1})
	code, _, stderr := convoy(t.Context(), "-db", o.DB, "-amqp", o.AMQP, "-prefix", o.Prefix)
	require.Equal(t, exitBad, code)
	assert.Contains(t, stderr, "there are orders of an earlier run: give an empty database with -db, and other queues with -prefix")
}

// An interrupted convoy ends at once, and takes its processes with it.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	code, _, stderr := convoy(ctx, "-db", o.DB, "-amqp", o.AMQP, "-prefix", o.Prefix, "-latency", "1m")
	require.Equal(t, exitBad, code)
	assert.Contains(t, stderr, "context deadline exceeded")
}

// A process on a leash ends in good order when whoever started it is gone.
func TestLeash(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	for _, as := range []string{conductor.AsWorker, conductor.AsProcessor} {
		var stderr bytes.Buffer
		process := exec.CommandContext(t.Context(), os.Args[0], "-leashed", "-as", as, "-db", o.DB, "-amqp", o.AMQP, "-prefix", o.Prefix)
		process.Stderr = &stderr
		leash, err := process.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, process.Start())
		require.NoError(t, leash.Close())
		require.NoError(t, process.Wait(), stderr.String())
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for says, args := range map[string]string{
		"see -help":                                   "-nonsense",
		`"ledger" is not a flag`:                      "ledger",
		`-as "boss" is not known`:                     "-as boss",
		"a worker needs -db and -amqp":                "-as worker",
		"a processor needs -db and -amqp":             "-as processor -db postgres://x",
		"-prefix is empty":                            "-prefix=",
		"-queues is 0":                                "-queues 0",
		"-queues is 65: use 1 to 64":                  "-queues 65",
		`-home "4": "4" is not a partition: they are`: "-home 4",
		`"x" is not a partition`:                      "-home 1,x",
		"-handlers is 0":                              "-handlers 0",
		"-latency is -1s":                             "-latency -1s",
		"-orders of 2 or more":                        "-orders 1",
		"-workers is 0":                               "-workers 0",
	} {
		code, _, stderr := convoy(t.Context(), strings.Fields(args)...)
		assert.Equal(t, exitUsage, code, args)
		assert.Contains(t, stderr, says, args)
	}
	code, _, stderr := convoy(t.Context(), "-help")
	assert.Equal(t, exitGood, code)
	assert.Contains(t, stderr, "-queues")
	code, _, stderr = convoy(t.Context(), "-as", "worker", "-db", "postgres://localhost:1/none", "-amqp", "amqp://localhost:1")
	assert.Equal(t, exitBad, code)
	assert.Contains(t, stderr, "convoy: worker: postgres: database none at localhost")
}
