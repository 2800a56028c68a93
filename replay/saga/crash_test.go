package saga_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/replay/saga"
)

// childEnv makes a process of this test a coordinator for the database that it names.
const childEnv = "SAGA_TEST_CHILD"

// manyRuns is the number of runs of a child.
const manyRuns = 100

// elsewhere is a participant: it does actions once, whoever calls however often.
type elsewhere struct{ store *sqlstore.Store }

func (p elsewhere) do(what string) func(ctx context.Context, call saga.Call, o *order) error {
	return func(ctx context.Context, call saga.Call, o *order) error {
		o.Log = append(o.Log, what)
		return p.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			first, err := saga.Barrier(ctx, tx, call)
			if err != nil || !first {
				return err
			}
			return write(what)(ctx, tx, call, &order{})
		})
	}
}

func (p elsewhere) find(what string) func(ctx context.Context, call saga.Call, o *order) (saga.Found, error) {
	return func(ctx context.Context, call saga.Call, _ *order) (saga.Found, error) {
		var n int
		err := p.store.DB().QueryRowContext(ctx, `SELECT count(*) FROM effects WHERE saga = $1 AND what = $2`, call.Saga, what).Scan(&n)
		if n > 0 {
			return saga.Happened, err
		}
		return saga.Unsure, err
	}
}

// trip has steps of all kinds. The last one refuses every third run.
func trip(store *sqlstore.Store) saga.Definition[order] {
	away := elsewhere{store}
	return saga.Definition[order]{
		Name: "trip", Version: 1, Keep: keepProduct, Kept: products, Timeout: time.Hour,
		Steps: []saga.Step[order]{
			{Name: "reserve", DoTx: write("reserved"), UndoTx: write("released"), Backoff: quick},
			{Name: "flight", Do: away.do("flight"), Undo: away.do("no flight"), Backoff: quick},
			{Name: "hotel", Do: away.do("hotel"), Undo: away.do("no hotel"), Find: away.find("hotel"), After: []string{"reserve"}, Backoff: quick,
				Keys:  func(_ *order, c *lockkeys.Claim) error { c.Exclusive(lockkeys.Must("hotels")); return nil },
				Under: []lockkeys.Key{lockkeys.Must("hotels")}},
			{Name: "confirm", After: []string{"flight", "hotel"}, Backoff: quick, DoTx: func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error {
				if o.Refused != "" {
					return dispatcher.Permanent(errAway)
				}
				return write("confirmed")(ctx, tx, call, o)
			}},
		},
	}
}

// child starts runs, if there are none, and runs them until it is killed. It writes a
// line for each event.
func child(where string) {
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
	ctx := context.Background()
	store, err := openAt(ctx, where)
	fail(err)
	fail(store.Migrate(ctx, "test", effects))
	cfg := config(store)
	cfg.Record = func(_ context.Context, _ *sql.Tx, e *ordering.Event) error {
		_, err := fmt.Println(e.Type, e.CorrelationID)
		return err
	}
	c, err := saga.New(ctx, cfg, saga.Register(trip(store)))
	fail(err)
	fail(startMany(ctx, c, store))
	<-c.Done()
	fmt.Println("stopped:", c.Err())
	select {}
}

// startMany starts the runs that were not started before.
func startMany(ctx context.Context, c *saga.Coordinator, store *sqlstore.Store) error {
	defer c.Notify()
	return store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for i := range manyRuns {
			o := order{Product: fmt.Sprint(i % 20)}
			if i%3 == 0 {
				o.Refused = "no"
			}
			if err := c.Start(ctx, tx, fmt.Sprint(i), o); err != nil {
				return err
			}
		}
		return nil
	})
}

// A coordinator is killed with kill -9 at random moments, again and again. Then every run
// comes to its end, wholly done or wholly undone, and each effect is there once.
func TestKilled(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		for range 8 {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), childEnv+"="+where)
			c.Stderr = os.Stderr
			_, err := c.StdinPipe() // it ends with this process at the latest
			require.NoError(t, err)
			out, err := c.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, c.Start())
			lines := bufio.NewScanner(out)
			late := time.AfterFunc(5*time.Second, func() { _ = c.Process.Kill() }) // all is done
			for n := 1 + rand.IntN(150); n > 0 && lines.Scan(); n-- {
				continue
			}
			_ = c.Process.Kill()
			late.Stop()
			_, _ = io.Copy(io.Discard, out)
			require.Error(t, c.Wait())
		}
		store := open(t, where)
		c := coordinator(t, config(store), saga.Register(trip(store)))
		require.NoError(t, startMany(t.Context(), c, store), "on a slow machine each process may have been killed before it could")
		undone, cut := 0, 0
		for i := range manyRuns {
			id := fmt.Sprint(i)
			run := ended(t, c, id)
			got := effectsOf(t, store, id)
			what := slices.Sorted(slices.Values(got))
			if i%3 != 0 {
				require.Equal(t, saga.Completed, run.Status, id)
				require.Equal(t, []string{"confirmed", "flight", "hotel", "reserved"}, what, id)
				require.Equal(t, "reserved", got[0])
				require.Equal(t, "confirmed", got[3])
				continue
			}
			undone++
			require.Equal(t, saga.Compensated, run.Status, id)
			require.Equal(t, []string{"flight", "hotel", "no flight", "no hotel", "released", "reserved"}, what, id)
			require.Equal(t, "reserved", got[0])
			require.Equal(t, "released", got[5])
			// In reverse order of completion, which is that of the records, and not that of
			// the effects elsewhere.
			require.Equal(t, run.Steps[1].Order > run.Steps[2].Order, slices.Index(got, "no flight") < slices.Index(got, "no hotel"), id)
			for n, e := range run.History {
				require.Equal(t, n+1, e.N)
				if n > 0 && e.Time.Sub(run.History[n-1].Time) > 50*time.Millisecond {
					cut++
				}
			}
		}
		assert.Equal(t, 34, undone)
		t.Log(cut, "pauses")
	})
}

// TestManyRunsAreResumedSoon: what has begun goes on soon after a start. The runs say what
// they are; nothing is replayed.
func TestManyRunsAreResumedSoon(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		called := make(chan string, 10*manyRuns)
		hang := saga.Register(saga.Definition[order]{Name: "hang", Version: 1, Keep: keepProduct, Kept: products, Steps: []saga.Step[order]{
			{Name: "reserve", DoTx: write("reserved"), UndoTx: write("released")},
			{Name: "hang", Do: func(ctx context.Context, call saga.Call, _ *order) error {
				called <- call.Saga
				<-ctx.Done()
				return context.Cause(ctx)
			}}}})
		cfg := config(store)
		cfg.Workers = 2 * manyRuns
		wait := func() {
			seen := map[string]bool{}
			for len(seen) < manyRuns {
				seen[<-called] = true
			}
		}
		c, err := saga.New(t.Context(), cfg, hang)
		require.NoError(t, err)
		require.NoError(t, store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
			for i := range manyRuns {
				err = errors.Join(err, c.Start(ctx, tx, fmt.Sprint(i), order{Product: fmt.Sprint(i)}))
			}
			return err
		}))
		c.Notify()
		wait()
		best := time.Hour
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // attempts under way are cut off
			_ = c.Shutdown(ctx)
			require.NoError(t, c.Close())
			began := time.Now()
			c, err = saga.New(t.Context(), cfg, hang)
			require.NoError(t, err)
			wait()
			best = min(best, time.Since(began))
		}
		t.Log(manyRuns, "runs were resumed in", best)
		assert.Less(t, best, 500*time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = c.Shutdown(ctx)
		require.NoError(t, c.Close())
	})
}

// The server of the database is killed while sagas run. They wait for it, and no attempt is
// used up.
func TestStoreFails(t *testing.T) {
	s := pgtest.Start(t, "fsync=off")
	store := open(t, s.Database(t))
	var folder string
	require.NoError(t, store.DB().QueryRow(`SHOW data_directory`).Scan(&folder))
	first := make(chan struct{})
	kill := sync.OnceFunc(func() {
		s.Kill()
		close(first)
	})
	c := coordinator(t, config(store), saga.Register(saga.Definition[order]{Name: "one", Version: 1, Steps: []saga.Step[order]{
		{Name: "reserve", MaxAttempts: 1, DoTx: func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error {
			kill() // the transaction has begun
			return write("reserved")(ctx, tx, call, o)
		}},
		{Name: "pay", MaxAttempts: 1, Do: func(_ context.Context, _ saga.Call, o *order) error { o.Paid = "yes"; return nil }},
		{Name: "ship", MaxAttempts: 1, DoTx: write("shipped")},
	}}))
	start(t, c, store, "1", order{})
	<-first
	gone(t, folder)
	require.NoError(t, s.Restart())
	var run saga.Run
	require.Eventually(t, func() (over bool) {
		var err error
		run, err = c.Run(t.Context(), "1")
		return err == nil && run.Status.Ended()
	}, waitAtMost, time.Millisecond)
	assert.Equal(t, saga.Completed, run.Status)
	assert.Zero(t, count(run, saga.StepFailed))
	assert.Equal(t, []string{"reserved", "shipped"}, effectsOf(t, store, "1"))
}

// gone waits until no process of a server is left, which would keep a new one from
// starting.
func gone(t *testing.T, folder string) {
	t.Helper()
	require.Eventually(t, func() bool {
		processes, _ := filepath.Glob("/proc/[0-9]*/cwd")
		return !slices.ContainsFunc(processes, func(link string) bool {
			target, _ := os.Readlink(link)
			return target == folder
		})
	}, waitAtMost, time.Millisecond)
}

// The connection to the database is lost at each place of a saga: what was sent last
// never arrives, or later, so that nobody knows whether a transaction was committed. Each
// effect is there once all the same, and each event.
func TestAnswersAreLost(t *testing.T) {
	s, err := server()
	require.NoError(t, err)
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late ", late), func(t *testing.T) {
			url := s.Database(t)
			plain := open(t, url)
			link, through := s.Link(t, url)
			cfg := config(open(t, through))
			cfg.Poll = time.Hour
			c := coordinator(t, cfg, saga.Register(checkout(func(context.Context, *sql.Tx, saga.Call, *order) error { return dispatcher.Permanent(errAway) })))
			places := 0
			for n, whole := 0, false; !whole && n < 400; n++ {
				id := fmt.Sprint(n)
				require.NoError(t, plain.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return c.Start(ctx, tx, id, order{}) }))
				arrive := func() {}
				if late {
					arrive = link.DelayAfter(n)
				} else {
					link.BreakAfter(n)
				}
				timer := time.AfterFunc(2*time.Millisecond, arrive)
				c.Notify()
				require.Eventually(t, func() (over bool) {
					require.NoError(t, plain.DB().QueryRow(`SELECT ended > 0 FROM saga_runs WHERE id = $1`, id).Scan(&over))
					return over
				}, waitAtMost, 2*time.Millisecond, "place %d", n)
				whole = link.Disarm()
				timer.Stop()
				arrive()
				require.Equal(t, []string{"reserved", "paid", "refunded", "released"}, effectsOf(t, plain, id), "place %d", n)
				places++
			}
			t.Log(places, "places")
		})
	}
}
