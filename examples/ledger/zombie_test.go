package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/pgtest"
)

// Two processes work on one database and input. The one that began last has it;
// the other one finds that out by its next commit, has no more effects, and
// says so.
func TestTwoProcesses(t *testing.T) {
	binary := build(t)
	t.Run("sqlite, while it works", func(t *testing.T) {
		b := newCrashBook(t, filepath.Join(t.TempDir(), "ledger.db"), 1)
		first := b.begin(t, binary)
		b.run(t, binary)
		first.requireFenced(t)
		b.verify(t)
	})
	t.Run("postgres, while it works", func(t *testing.T) {
		b := newCrashBook(t, pgtest.Start(t).Database(t), 1)
		first := b.begin(t, binary)
		// Its own audit may miss what the first one did after the audit began
		// and before all streams were taken over; the books may not.
		out, err := b.command(binary).CombinedOutput()
		if err != nil {
			require.Contains(t, string(out), "missing from the accounts")
		}
		first.requireFenced(t)
		b.verify(t)
	})
	t.Run("postgres, while it is frozen", func(t *testing.T) {
		// The server ends sessions of processes that do not answer, which may
		// be in the middle of a transaction.
		b := newCrashBook(t, pgtest.Start(t).Database(t)+"&idle_in_transaction_session_timeout=500ms", 1)
		zombie := b.begin(t, binary)
		require.NoError(t, zombie.Process.Signal(syscall.SIGSTOP))
		b.run(t, binary)
		require.NoError(t, zombie.Process.Signal(syscall.SIGCONT))
		zombie.requireFenced(t)
		b.verify(t)
	})
}

// running is a process that works on a crashBook.
type running struct {
	*exec.Cmd
	output *bytes.Buffer
}

// begin starts the program and waits until it has done a part of its input.
func (b *crashBook) begin(t *testing.T, binary string) running {
	t.Helper()
	r := running{b.command(binary, "-latency", "4ms", "-workers", "8"), &bytes.Buffer{}}
	r.Stdout, r.Stderr = r.output, r.output
	require.NoError(t, r.Start())
	t.Cleanup(func() { _ = r.Process.Kill() })
	require.Eventually(t, func() bool { return len(journalOf(t, b.db)) > 200 }, time.Minute, 10*time.Millisecond)
	return r
}

func (r running) requireFenced(t *testing.T) {
	t.Helper()
	err := r.Wait()
	var ended *exec.ExitError
	require.ErrorAs(t, err, &ended, r.output.String())
	require.Positive(t, ended.ExitCode(), r.output.String())
	require.Contains(t, r.output.String(), "taken over", r.output.String())
}
