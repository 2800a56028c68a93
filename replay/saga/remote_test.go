package saga_test

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/replay/saga"
)

// journal is what happens, in order.
type journal struct {
	mu   sync.Mutex
	list []string
}

func (j *journal) add(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, what)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.list)
}

// TestUnknownOutcome: an action whose outcome is unknown is asked for, else done again with
// the same key, else undone.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		found    []saga.Found // answers of Find; nil for none
		findErr  error
		results  []error // of Do
		attempts int
		want     []string
		status   saga.Status
	}{
		"it is done again":           {nil, nil, []error{errAway, nil}, 3, []string{"do 1", "do 2"}, saga.Completed},
		"it has happened":            {[]saga.Found{saga.Happened}, nil, []error{errAway}, 3, []string{"do 1", "find"}, saga.Completed},
		"it has not happened":        {[]saga.Found{saga.NotHappened}, nil, []error{errAway, nil}, 3, []string{"do 1", "find", "do 2"}, saga.Completed},
		"nobody knows":               {[]saga.Found{saga.Unsure}, nil, []error{errAway, nil}, 3, []string{"do 1", "find", "do 2"}, saga.Completed},
		"Find fails":                 {[]saga.Found{saga.Happened}, errAway, []error{errAway, nil}, 3, []string{"do 1", "find", "do 2"}, saga.Completed},
		"at the end it has happened": {[]saga.Found{saga.Unsure, saga.Happened}, nil, []error{errAway, errAway}, 2, []string{"do 1", "find", "do 2", "find"}, saga.Completed},
		"at the end it has not":      {[]saga.Found{saga.Unsure, saga.NotHappened}, nil, []error{errAway, errAway}, 2, []string{"do 1", "find", "do 2", "find"}, saga.Compensated},
		"at the end nobody knows":    {[]saga.Found{saga.Unsure, saga.Unsure}, nil, []error{errAway, errAway}, 2, []string{"do 1", "find", "do 2", "find", "undo 1"}, saga.Compensated},
		"without Find it is undone":  {nil, nil, []error{errAway, errAway}, 2, []string{"do 1", "do 2", "undo 1"}, saga.Compensated},
		"it is refused":              {[]saga.Found{saga.Unsure}, nil, []error{dispatcher.Permanent(errAway)}, 3, []string{"do 1"}, saga.Compensated},
		"it panics":                  {nil, nil, []error{nil, nil}, 3, []string{"do 1", "do 2"}, saga.Completed},
		"it ends its goroutine":      {nil, nil, []error{nil, nil}, 3, []string{"do 1", "do 2"}, saga.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t, t.TempDir()+"/saga.db")
			var j journal
			results, found := test.results, test.found
			step := saga.Step[order]{Name: "act", Backoff: quick, MaxAttempts: test.attempts,
				Do: func(_ context.Context, call saga.Call, o *order) error {
					j.add(fmt.Sprint("do ", call.Attempt))
					assert.Equal(t, "1/act/do", call.Key())
					if call.Attempt == 1 && name == "it panics" {
						panic("loudly")
					}
					if call.Attempt == 1 && name == "it ends its goroutine" {
						runtime.Goexit()
					}
					return results[call.Attempt-1]
				},
				Undo: func(_ context.Context, call saga.Call, _ *order) error {
					j.add(fmt.Sprint("undo ", call.Attempt))
					assert.Equal(t, "1/act/undo", call.Key())
					return nil
				}}
			if test.found != nil {
				step.Find = func(context.Context, saga.Call, *order) (saga.Found, error) {
					j.add("find")
					answer := found[0]
					found = found[1:]
					return answer, test.findErr
				}
			}
			c := coordinator(t, config(store), saga.Register(saga.Definition[order]{Name: "d", Version: 1, Steps: []saga.Step[order]{step}}))
			start(t, c, store, "1", order{})
			assert.Equal(t, test.status, ended(t, c, "1").Status)
			assert.Equal(t, test.want, j.all())
		})
	}
}

// TestCanceledInFlight: Cancel and the time limit end the call that is under way, and it is
// undone; the compensation has a context of its own, and goes on.
func TestCanceledInFlight(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		inFlight := make(chan struct{}, 2)
		undone := make(chan error, 2)
		d := saga.Definition[order]{Name: "d", Version: 1, Timeout: time.Hour, Steps: []saga.Step[order]{
			{Name: "reserve", DoTx: write("reserved"), UndoTx: write("released")},
			{Name: "pay", Backoff: quick, Do: func(ctx context.Context, _ saga.Call, _ *order) error {
				inFlight <- struct{}{}
				<-ctx.Done()
				return context.Cause(ctx)
			}, Undo: func(ctx context.Context, _ saga.Call, _ *order) error {
				undone <- ctx.Err()
				return nil
			}}}}
		check := func(c *saga.Coordinator, id, cause string) {
			t.Helper()
			run := ended(t, c, id)
			assert.Equal(t, saga.Compensated, run.Status)
			assert.Equal(t, cause, run.Cause)
			require.NoError(t, <-undone)
			assert.Equal(t, []string{"reserved", "released"}, effectsOf(t, store, id))
		}
		c := coordinator(t, config(store), saga.Register(d))
		start(t, c, store, "canceled", order{})
		<-inFlight
		require.NoError(t, c.Cancel(t.Context(), "canceled", "changed mind"))
		require.NoError(t, c.Cancel(t.Context(), "canceled", "changed mind"))
		check(c, "canceled", "canceled: changed mind")
		require.NoError(t, c.Close())

		d.Version, d.Timeout = 2, 100*time.Millisecond
		c = coordinator(t, config(store), saga.Register(d))
		for n := 0; ; n++ { // until one comes so far in its time, beside whatever else the machine does
			id := fmt.Sprint("late ", n)
			start(t, c, store, id, order{})
			ended(t, c, id)
			select {
			case <-inFlight:
				check(c, id, "not completed within 100ms")
				return
			default:
			}
		}
	})
}

// TestParallelSteps run side by side, and none of their changes of the state is lost.
func TestParallelSteps(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	var both sync.WaitGroup
	both.Add(2)
	meet := func(set func(o *order)) func(context.Context, saga.Call, *order) error {
		return func(_ context.Context, _ saga.Call, o *order) error {
			both.Done()
			both.Wait()
			set(o)
			return nil
		}
	}
	c := coordinator(t, config(store), saga.Register(saga.Definition[order]{Name: "d", Version: 1, Steps: []saga.Step[order]{
		{Name: "a", After: []string{}, Do: meet(func(o *order) { o.Paid = "by a" })},
		{Name: "b", After: []string{}, Do: meet(func(o *order) { o.Refused = "by b" })},
		{Name: "c", After: []string{"a", "b"}, DoTx: write("all")},
	}}))
	start(t, c, store, "1", order{})
	assert.JSONEq(t, `{"Product": "", "Log": ["all"], "Paid": "by a", "Refused": "by b"}`, string(ended(t, c, "1").State))
}

// TestUndoingHasNoEnd: an undo that fails is tried until it succeeds.
func TestUndoingHasNoEnd(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	c := coordinator(t, config(store), saga.Register(saga.Definition[order]{Name: "d", Version: 1, Steps: []saga.Step[order]{
		{Name: "pay", MaxAttempts: 2, Backoff: quick, Do: nothing, Undo: func(_ context.Context, call saga.Call, o *order) error {
			if call.Attempt < 30 {
				return errAway
			}
			o.Paid = "refunded"
			return nil
		}},
		{Name: "ship", Do: func(context.Context, saga.Call, *order) error { return dispatcher.Permanent(errAway) }},
	}}))
	start(t, c, store, "1", order{})
	run := ended(t, c, "1")
	assert.Equal(t, saga.Compensated, run.Status)
	assert.Equal(t, 29, count(run, saga.CompensationFailed))
	assert.Contains(t, string(run.State), "refunded")
}

// TestTwoNames: coordinators of different names on one database have nothing in common, nor
// have their calls at a participant.
func TestTwoNames(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		cfg := config(store)
		cfg.Name = "other"
		called := func(last string) saga.Registered {
			d := checkout(write(last))
			d.Steps[1] = saga.Step[order]{Name: "pay", Do: elsewhere{store}.do("paid"), Undo: elsewhere{store}.do("refunded")}
			return saga.Register(d)
		}
		one := coordinator(t, config(store), called("shipped"))
		other := coordinator(t, cfg, called("sent"))
		for _, c := range []*saga.Coordinator{one, other} {
			start(t, c, store, "1", order{Product: "7"})
			assert.Equal(t, saga.Completed, ended(t, c, "1").Status)
		}
		assert.Equal(t, []string{"reserved", "paid", "shipped", "reserved", "paid", "sent"}, effectsOf(t, store, "1"))
		cfg.Name = "a/b"
		_, err := saga.New(t.Context(), cfg, called("sent"))
		require.ErrorContains(t, err, `Name is "a/b"`)
	})
}

// TestMoreRunsThanFit: runs beyond MaxRuns wait in the database, those that have begun go on.
func TestMoreRunsThanFit(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	cfg := config(store)
	cfg.MaxRuns, cfg.Poll = 2, time.Hour
	c := coordinator(t, cfg, saga.Register(checkout(write("shipped"))))
	require.NoError(t, store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		for i := range 20 {
			if err := c.Start(ctx, tx, fmt.Sprint(i), order{Product: "7"}); err != nil {
				return err
			}
		}
		return nil
	}))
	c.Notify()
	last := time.Time{}
	for i := range 20 {
		run := ended(t, c, fmt.Sprint(i))
		assert.True(t, run.Ended.After(last), "in the order in which they were started")
		last = run.Ended
	}
}

// As many runs as one likes is no special number.
func TestMaxRunsMayBeAnything(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	for _, most := range []int{1, math.MaxInt32, math.MaxInt} {
		cfg := config(store)
		cfg.MaxRuns = most
		c := coordinator(t, cfg, saga.Register(checkout(write("shipped"))))
		id := fmt.Sprint(most)
		start(t, c, store, id, order{Product: "7"})
		assert.Equal(t, saga.Completed, ended(t, c, id).Status)
		require.NoError(t, c.Close())
	}
}

func BenchmarkRuns(b *testing.B) {
	store := open(b, b.TempDir()+"/saga.db")
	c := coordinator(b, config(store), saga.Register(checkout(write("shipped"))))
	for b.Loop() {
		require.NoError(b, store.Write(b.Context(), func(ctx context.Context, tx *sql.Tx) error {
			for i := range 100 {
				if err := c.Start(ctx, tx, fmt.Sprint(b.Elapsed(), " ", i), order{Product: fmt.Sprint(i)}); err != nil {
					return err
				}
			}
			return nil
		}))
		c.Notify()
		for {
			list, err := c.Active(b.Context(), 1)
			require.NoError(b, err)
			if len(list) == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "runs/s")
}

// TestAskedAfterARestart: what was under way when the process ended is asked for before it is
// done again.
func TestAskedAfterARestart(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	var j journal
	inFlight := make(chan struct{}, 2)
	d := func(found saga.Found) saga.Registered {
		return saga.Register(saga.Definition[order]{Name: "d", Version: 1, Steps: []saga.Step[order]{{Name: "pay",
			Do: func(ctx context.Context, call saga.Call, _ *order) error {
				j.add("do " + call.Saga)
				if found == saga.Unsure {
					inFlight <- struct{}{}
					<-ctx.Done()
				}
				return ctx.Err()
			},
			Find: func(_ context.Context, call saga.Call, o *order) (saga.Found, error) {
				j.add("find " + call.Saga)
				o.Paid = "found"
				return found, nil
			}}}})
	}
	for i, found := range []saga.Found{saga.Happened, saga.NotHappened} {
		id := fmt.Sprint(i)
		c := coordinator(t, config(store), d(saga.Unsure))
		start(t, c, store, id, order{})
		<-inFlight
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = c.Shutdown(ctx) // the call is cut off
		require.NoError(t, c.Close())
		c = coordinator(t, config(store), d(found))
		run := ended(t, c, id)
		assert.Equal(t, saga.Completed, run.Status)
		assert.Zero(t, count(run, saga.StepFailed))
		require.NoError(t, c.Close())
	}
	assert.Equal(t, []string{"do 0", "find 0", "do 1", "find 1", "do 1"}, j.all())
}
