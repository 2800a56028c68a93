package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/saga"
)

var server = sync.OnceValues(func() (*pgtest.Server, error) { return pgtest.New("fsync=off") })

// asTool has the test's program be the tool, so that it is a process of its own.
const asTool = "INTERLOCK_OPERATOR_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		main()
		return
	}
	flag.Parse()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if s, err := server(); err == nil {
			s.Close()
		}
		os.Exit(code)
	}))
}

// tool runs the tool, and returns what it printed, and its exit code.
func tool(t *testing.T, args ...string) (out, problem string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, os.Args[0], args...)
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), asTool+"=1"), &stdout, &stderr
	if err := c.Run(); err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return stdout.String(), stderr.String(), c.ProcessState.ExitCode()
}

// The story of a night: a payment fails and a saga is parked; somebody looks, decides
// beside the service, and both go on.
func TestNight(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a database.db")
		store, err := sqlite.Open(t.Context(), path)
		require.NoError(t, err)
		night(t, store, path)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		s, err := server()
		require.NoError(t, err)
		url := s.Database(t)
		store, err := postgres.Open(t.Context(), url)
		require.NoError(t, err)
		night(t, store, url)
	})
}

type parcel struct{ Name string }

func night(t *testing.T, store *sqlstore.Store, db string) {
	t.Cleanup(func() { assert.NoError(t, store.Close()) })
	var mended atomic.Bool
	quiet := slog.New(slog.DiscardHandler)
	payments, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
		Store: store, Consumer: ordering.Consumer{Name: "payments"}, Logger: quiet,
		Handler: sqlstore.InTx(store, func(context.Context, *sql.Tx, ordering.Job[*ordering.Event]) error {
			if mended.Load() {
				return nil
			}
			return dispatcher.Permanent(assert.AnError)
		}),
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, payments.Close()) })
	definition := saga.Definition[parcel]{Name: "send", Version: 1, Steps: []saga.Step[parcel]{{
		Name: "ship", Pivot: true, DoTx: func(context.Context, *sql.Tx, saga.Call, *parcel) error { return nil },
	}, {
		Name: "tell", DoTx: func(context.Context, *sql.Tx, saga.Call, *parcel) error {
			if mended.Load() {
				return nil
			}
			return dispatcher.Permanent(assert.AnError)
		},
	}}}
	runs, err := saga.New(t.Context(), saga.Config{Store: store, Logger: quiet}, saga.Register(definition))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, runs.Close()) })

	account := ordering.Position{Stream: lockkeys.Must("client", "42"), Number: 1}
	require.NoError(t, payments.Offer(t.Context(), &ordering.Event{ID: "rent", Positions: []ordering.Position{account}}, nil))
	require.NoError(t, store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return runs.Start(ctx, tx, "parcel 7", parcel{"seven"}) }))
	require.Eventually(t, func() bool {
		out, _, code := tool(t, "-db", db, "list")
		return code == exitDone && strings.Contains(out, "1 parkings: an operator must decide") && strings.Contains(out, "1 runs are parked")
	}, 2*time.Minute, 50*time.Millisecond)

	t.Log("somebody looks")
	out, _, code := tool(t, "list", "-json", "-db", db)
	require.Equal(t, exitDone, code)
	var seen map[string]view.View
	require.NoError(t, json.Unmarshal([]byte(out), &seen), out)
	require.Len(t, seen["payments"].Tables[0].Rows, 1)
	payment := seen["payments"].Tables[0].Rows[0]
	assert.True(t, strings.HasPrefix(payment.Target, account.String()+" @"), payment.Target)
	assert.Contains(t, payment.Cells[1], "rent")
	run := seen["saga/default"].Tables[0].Rows[0]
	assert.Contains(t, run.Cells[0], "parcel 7")
	out, _, code = tool(t, "-db", db, "list", "-consumer", "payments")
	require.Equal(t, exitDone, code)
	assert.Contains(t, out, account.String())
	assert.NotContains(t, out, "parcel")
	out, _, code = tool(t, "-db", db, "owners")
	require.Equal(t, exitDone, code)
	assert.Contains(t, out, payments.Term().Holder)
	page(t, db)

	t.Log("and decides")
	mended.Store(true)
	out, problem, code := tool(t, "-db", db, "-consumer", "payments", "resume", payment.Target, "-why", "case 17", "-by", "ann", "-wait", "1m")
	require.Equal(t, exitDone, code, problem)
	assert.Contains(t, out, "done")
	_, problem, code = tool(t, "-db", db, "-consumer", "saga/default", "-why", "case 17", "-by", "ann", "resume", run.Target, "-wait", "1m")
	require.Equal(t, exitDone, code, problem)
	end, err := runs.Await(t.Context(), "parcel 7")
	require.NoError(t, err)
	assert.Equal(t, saga.Completed, end)
	require.Eventually(t, func() bool { return payments.Stats().Applied == 1 }, time.Minute, 5*time.Millisecond)

	t.Log("twice is once")
	_, problem, code = tool(t, "-db", db, "-consumer", "payments", "drop", payment.Target, "-why", "case 17", "-by", "bob", "-wait", "1m")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, problem, "stream is not parked")
	_, problem, code = tool(t, "-db", db, "-consumer", "payments", "withdraw", "1", "-why", "a mistake")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, problem, "no such request")

	t.Log("while nobody works, a request waits and can be taken back")
	require.NoError(t, payments.Close())
	_, problem, code = tool(t, "-db", db, "-consumer", "payments", "skip", payment.Target, "-why", "case 18", "-wait", "1ms")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, problem, "request 4 is not carried out yet, and stays: nobody has carried it out within 1ms")
	_, problem, code = tool(t, "-db", db, "withdraw", "4", "-why", "a mistake", "-by", "ann")
	assert.Equal(t, exitDone, code, problem)
	out, _, code = tool(t, "-db", db, "requests")
	require.Equal(t, exitDone, code)
	assert.Contains(t, out, "failed: withdrawn by ann: a mistake")
	assert.Contains(t, out, "case 18")
	require.NoError(t, runs.Err(), "nobody was taken over")
}

// page checks that the tool serves the page.
func page(t *testing.T, db string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-db", db, "serve", "127.0.0.1:0")
	c.Env = append(os.Environ(), asTool+"=1")
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	address, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	response, err := client.Get(strings.TrimSpace(address))
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Contains(t, string(body), "payments")
	require.NoError(t, c.Process.Signal(os.Interrupt))
	require.NoError(t, c.Wait())
}

// What is wrong with a command line is said, and nothing is done.
func TestUsage(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.db")
	for _, c := range []struct {
		args, says string
		code       int
	}{
		{"", "there is no command", exitUsage},
		{"-db x burn", `"burn" is no command`, exitUsage},
		{"list", "-db is missing", exitUsage},
		{"-db x skip", "write: skip TARGET", exitUsage},
		{"-db x list more", "write: list", exitUsage},
		{"-db x skip a=1", "-why is missing", exitUsage},
		{"-db x -wait -1s list", "-wait is -1s", exitUsage},
		{"-db x -wait soon list", "soon", exitUsage},
		{"-db x -unknown list", "unknown", exitUsage},
		{"-db " + missing + " list", "no such file", exitFailed},
		{"-db postgres://nobody@127.0.0.1:1/x list", "127.0.0.1", exitFailed},
		{"-help", "", exitDone},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		assert.Equal(t, c.code, code, c.args)
		assert.Contains(t, stderr.String(), c.says, c.args)
		if c.args == "-help" {
			assert.Equal(t, usage, stdout.String())
		}
	}
	assert.NoFileExists(t, missing)
}

// Texts from a database cannot do anything to the terminal.
func TestPlain(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, printView(&out, "x\x1b[2J", view.View{Kind: "consumer", Tables: []view.Table{{
		Name: "Parked", Columns: []string{"Error"}, Rows: []view.Row{{Target: "a\x07", Cells: []string{"line\nbreak\ttab"}}}, Hidden: 3,
	}}}))
	for _, line := range strings.Split(out.String(), "\n") {
		assert.NotContains(t, line, "\x1b")
		assert.NotContains(t, line, "\x07")
	}
	assert.Contains(t, out.String(), "line\uFFFDbreak\uFFFDtab")
	assert.Contains(t, out.String(), "and 3 more")
	assert.Contains(t, out.String(), "nothing is parked")
}
