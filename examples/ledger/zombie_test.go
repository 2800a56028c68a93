package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Two processes work on one database and input. The one that began last has it;
// the other one finds that out by its next commit, has no more effects, and
// says so.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	t.Run("sqlite, while it works", func(t *testing.T) {
		t.Parallel()
		b := newCrashBook(t, filepath.Join(t.TempDir(), "ledger.db"), 1, forOne)
		first := b.begin(t)
		b.run(t)
		first.requireFenced(t)
		b.verify(t)
	})
	t.Run("postgres, while it works", func(t *testing.T) {
		t.Parallel()
		b := newCrashBook(t, server(t).Database(t), 1, forOne)
		first := b.begin(t)
		b.run(t)
		first.requireFenced(t)
		b.verify(t)
	})
	t.Run("postgres, while it is frozen", func(t *testing.T) {
		t.Parallel()
		// The server ends sessions of processes that do not answer, which may
		// be in the middle of a transaction.
		b := newCrashBook(t, server(t).Database(t)+"&idle_in_transaction_session_timeout=500ms", 1, forOne)
		zombie := b.begin(t)
		require.NoError(t, zombie.Process.Signal(syscall.SIGSTOP))
		b.run(t)
		require.NoError(t, zombie.Process.Signal(syscall.SIGCONT))
		zombie.requireFenced(t)
		b.verify(t)
	})
}

// Two programs that take messages over HTTP have one database, one after the
// other: what was answered is what is there, and the first one ends.
func TestTwoThatServe(t *testing.T) {
	t.Parallel()
	for name, db := range map[string]string{
		"sqlite":   filepath.Join(t.TempDir(), "ledger.db"),
		"postgres": server(t).Database(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := &http.Client{}
			defer client.CloseIdleConnections()
			first := serve(t, "-db", db)
			code, answer := post(t, client, first.url, `{"op":"open","account":"a"}`)
			require.Equal(t, 200, code, answer)
			var applied atomic.Int64
			var senders sync.WaitGroup
			send := func(url string, n int) {
				for range n {
					response, err := client.Post(url+"/messages", "application/json", strings.NewReader(`{"op":"deposit","account":"a","amount":"1"}`))
					if err != nil {
						return // the program has ended
					}
					_, _ = io.Copy(io.Discard, response.Body)
					response.Body.Close()
					if response.StatusCode == http.StatusOK {
						applied.Add(1)
					}
				}
			}
			for range 8 {
				senders.Go(func() { send(first.url, 1000) })
			}
			requireSoon(t, func() error {
				if n := applied.Load(); n < 50 {
					return fmt.Errorf("%d applied", n)
				}
				return nil
			})
			second := serve(t, "-db", db)
			for range 8 {
				senders.Go(func() { send(second.url, 30) })
			}
			senders.Wait()
			assert.Equal(t, exitBad, <-first.code)
			assert.Contains(t, first.stdout.String(), "another program has taken over the database")
			assert.NotContains(t, first.stdout.String(), "missing from the accounts")
			_, answer = post(t, client, second.url, `{"op":"buying_power","client":"a"}`)
			assert.Contains(t, answer, fmt.Sprintf(`"amount":"%d"`, applied.Load()))
			code, summary := second.stop()
			assert.Equal(t, exitGood, code, summary)
			assert.NotContains(t, summary, "✗")
		})
	}
}

// However often a file is started at the same instant, it is applied once.
func TestTheSameFileAtOnce(t *testing.T) {
	t.Parallel()
	in := write(t, "in.ndjson", strings.Repeat(`{"op":"post","postings":[{"account":"A:B","amount":"1"}]}`+"\n", 100))
	path := binary(t)
	for kind, db := range map[string]string{"sqlite": filepath.Join(t.TempDir(), "ledger.db"), "postgres": server(t).Database(t)} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var programs sync.WaitGroup
			for range 2 {
				programs.Go(func() { _ = exec.Command(path, "-in", in, "-db", db, "-compare", "0").Run() }) // one at most is good
			}
			programs.Wait()
			r := ledger(t, "", "-in", in, "-db", db, "-out", filepath.Join(t.TempDir(), "out.csv"))
			require.Equal(t, exitGood, r.code, r.stdout+r.stderr)
			require.Len(t, journalOf(t, db), 100)
			require.Contains(t, r.stdout, "100: ")
		})
	}
}

// running is a process that works on a crashBook.
type running struct {
	*exec.Cmd
	output *bytes.Buffer
}

// begin starts the program and waits until it has done a part of its input.
func (b *crashBook) begin(t *testing.T) running {
	t.Helper()
	r := running{b.command(t, "-latency", "4ms", "-workers", "8"), &bytes.Buffer{}}
	r.Stdout, r.Stderr = r.output, r.output
	require.NoError(t, r.Start())
	t.Cleanup(func() { _ = r.Process.Kill() })
	requireApplied(t, b.db, 200)
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
