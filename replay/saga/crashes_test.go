package saga_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/replay/saga"
)

// killerEnv makes a process of this test a coordinator with a run that ends it, in the
// database that it names, after the number of the process and which action of the run does
// it: "3 undo /tmp/saga.db".
const killerEnv = "SAGA_TEST_KILLER"

// innocents are the runs beside the killer; the killer waits for them to be called, in the
// processes in which attempts run beside each other.
const (
	innocents   = 6
	besideUntil = 3
)

// fatal has steps of which one ends the process, or is under way when that happens.
// deadly is called by the killer's.
func fatal(deadly func(what string), under func(ctx context.Context) error) saga.Definition[order] {
	act := func(what string) func(context.Context, saga.Call, *order) error {
		return func(ctx context.Context, call saga.Call, _ *order) error {
			if call.Saga == "killer" {
				deadly(what)
				return nil
			}
			if what == "do" {
				return under(ctx)
			}
			return nil
		}
	}
	return saga.Definition[order]{Name: "fatal", Version: 1, Keep: keepProduct, Kept: products, Steps: []saga.Step[order]{
		{Name: "reserve", DoTx: write("reserved"), UndoTx: write("released")},
		{Name: "call", Do: act("do"), Undo: act("undo"), Find: func(_ context.Context, call saga.Call, _ *order) (saga.Found, error) {
			if call.Saga == "killer" {
				deadly("find")
			}
			return saga.Unsure, nil
		}},
		{Name: "end", DoTx: func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error {
			if o.Refused != "" {
				return fmt.Errorf("%s is refused", call.Saga)
			}
			return write("ended")(ctx, tx, call, o)
		}, MaxAttempts: 1},
	}}
}

// killer is the process.
func killer(args string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
		os.Exit(1)
	}()
	words := strings.SplitN(args, " ", 3)
	n, err := strconv.Atoi(words[0])
	fail(err)
	var inside atomic.Int64
	all := make(chan struct{})
	deadly := func(what string) {
		if what != words[1] {
			return
		}
		if n <= besideUntil && what == "do" {
			<-all
		}
		fail(syscall.Kill(os.Getpid(), syscall.SIGKILL))
		select {}
	}
	under := func(ctx context.Context) error {
		if inside.Add(1) == innocents {
			close(all)
		}
		if n <= besideUntil && words[1] == "do" {
			<-ctx.Done() // it is under way when the process ends
		}
		return nil
	}
	ctx := context.Background()
	store, err := openAt(ctx, words[2])
	fail(err)
	fail(store.Migrate(ctx, "test", effects))
	cfg := config(store)
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelError}))
	c, err := saga.New(ctx, cfg, saga.Register(fatal(deadly, under)))
	fail(err)
	fail(store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		state := order{Product: "killer"}
		if words[1] != "do" {
			state.Refused = "yes"
		}
		if err := c.Start(ctx, tx, "killer", state); err != nil {
			return err
		}
		for i := range innocents {
			if err := c.Start(ctx, tx, fmt.Sprint(i), order{}); err != nil {
				return err
			}
		}
		return nil
	}))
	c.Notify()
	<-c.Done()
}

// A step, or the undoing of it, ends the process each time that it is attempted. Its run is
// parked after MaxCrashes attempts that were counted, with what it keeps, and its history
// tells. Those that were under way beside it come to their ends.
func TestAStepEndsTheProcess(t *testing.T) {
	for _, what := range []string{"do", "undo"} {
		t.Run(what, func(t *testing.T) {
			everywhere(t, func(t *testing.T, where string) {
				const most = 5
				ends := 0
				for parked := false; !parked; {
					c := exec.Command(os.Args[0])
					c.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s", killerEnv, ends+1, what, where))
					_, err := c.StdinPipe() // it ends with this process at the latest
					require.NoError(t, err)
					out, err := c.StdoutPipe()
					require.NoError(t, err)
					require.NoError(t, c.Start())
					for lines := bufio.NewScanner(out); !parked && lines.Scan(); {
						parked = strings.Contains(lines.Text(), "a run is parked")
					}
					if parked {
						_ = c.Process.Kill()
					} else {
						ends++
					}
					require.Error(t, c.Wait())
					require.LessOrEqual(t, ends, most+1)
				}
				assert.Equal(t, most+1, ends, "once before anybody could know")

				store := open(t, where)
				var log bytes.Buffer
				cfg := config(store)
				cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
				c := coordinator(t, cfg, saga.Register(fatal(func(string) {}, func(context.Context) error { return nil })))
				for i := range innocents {
					assert.Equal(t, saga.Completed, ended(t, c, fmt.Sprint(i)).Status)
				}
				run, err := c.Run(t.Context(), "killer")
				require.NoError(t, err)
				require.Equal(t, saga.Parked, run.Status)
				require.Contains(t, run.Steps[1].Error, "the process has ended")
				require.Equal(t, most, count(run, saga.StepSuspected))
				require.Equal(t, saga.SagaParked, run.History[len(run.History)-1].Type)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				require.ErrorIs(t, c.Do(ctx, func(claim *lockkeys.Claim) { claim.Exclusive(product("killer")) }, func(context.Context) error { return nil }),
					context.DeadlineExceeded)
				require.NoError(t, c.Resume(t.Context(), "killer"))
				want := saga.Completed
				if what == "undo" {
					want = saga.Compensated
				}
				require.Equal(t, want, ended(t, c, "killer").Status)
			})
		})
	}
}

// In a term after one that was ended in good order nothing is counted, and an attempt that
// the process survives is not counted either: whether it fails, or is cut off by a
// shutdown.
func TestOnlyWhatEndsTheProcessIsCounted(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		cfg := config(store)
		cfg.MaxCrashes = 1
		calls, result := make(chan string, 1000), make(chan error)
		d := saga.Register(saga.Definition[order]{Name: "one", Version: 1, Steps: []saga.Step[order]{
			{Name: "call", MaxAttempts: 1000, Backoff: quick, Do: func(ctx context.Context, call saga.Call, _ *order) error {
				calls <- call.Saga
				select {
				case err := <-result:
					return err
				case <-ctx.Done():
					return ctx.Err()
				}
			}}}})
		called := func() {
			t.Helper()
			select {
			case <-calls:
			case <-time.After(waitAtMost):
				require.Fail(t, "not called")
			}
		}
		cutOff := func(c *saga.Coordinator) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_ = c.Shutdown(ctx)
			require.NoError(t, c.Close())
		}
		c, err := saga.New(t.Context(), cfg, d)
		require.NoError(t, err)
		start(t, c, store, "1", order{})
		called()
		for range 3 {
			next, err := saga.New(t.Context(), cfg, d) // takes over, while it is called
			require.NoError(t, err)
			cutOff(c)
			for range 5 {
				called()
				result <- errAway
			}
			called()
			cutOff(next)
			c, err = saga.New(t.Context(), cfg, d)
			require.NoError(t, err)
			called()
		}
		suspected := until(t, c, "1", func(r saga.Run) bool { return count(r, saga.StepFailed) >= 15 })
		assert.Positive(t, count(suspected, saga.StepSuspected))
		result <- nil
		run := ended(t, c, "1")
		assert.Equal(t, saga.Completed, run.Status)
		assert.Zero(t, count(run, saga.SagaParked))
		require.NoError(t, c.Close())
	})
}

// With MaxCrashes 1 whatever was under way is attempted alone from then on, so that only
// what ends the process is parked.
func TestTheLastAttemptIsAlone(t *testing.T) {
	store := open(t, filepath.Join(t.TempDir(), "saga.db"))
	cfg := config(store)
	cfg.MaxCrashes = 1
	var calling, most atomic.Int64
	begun := make(chan struct{}, 1000)
	d := saga.Register(saga.Definition[order]{Name: "one", Version: 1, Steps: []saga.Step[order]{
		{Name: "call", Do: func(ctx context.Context, _ saga.Call, _ *order) error {
			begun <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}}}})
	before, err := saga.New(t.Context(), cfg, d)
	require.NoError(t, err)
	const runs = 20
	for i := range runs {
		start(t, before, store, fmt.Sprint(i), order{})
	}
	for range runs {
		<-begun
	}
	next, err := saga.New(t.Context(), cfg, saga.Register(saga.Definition[order]{Name: "one", Version: 1, Steps: []saga.Step[order]{
		{Name: "call", Do: func(context.Context, saga.Call, *order) error {
			most.Store(max(most.Load(), calling.Add(1)))
			defer calling.Add(-1)
			runtime.Gosched()
			return nil
		}}}}))
	require.NoError(t, err)
	for i := range runs {
		run := ended(t, next, fmt.Sprint(i))
		assert.Equal(t, saga.Completed, run.Status)
		assert.Equal(t, 1, count(run, saga.StepSuspected))
	}
	assert.EqualValues(t, 1, most.Load())
	require.NoError(t, next.Close())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = before.Shutdown(ctx)
	require.NoError(t, before.Close())
}
