package saga_test

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/replay/saga"
)

var asAnn = dispatcher.WithOperator(context.Background(), "ann", "case 17")

// TestParked: what cannot be undone is parked with what it keeps, until an operator
// decides, also through restarts.
func TestParked(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		var possible atomic.Bool
		d := checkout(func(context.Context, *sql.Tx, saga.Call, *order) error { return dispatcher.Permanent(errAway) })
		d.Steps[1].UndoTx = func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error {
			if !possible.Load() {
				return dispatcher.Permanent(errAway)
			}
			return write("refunded")(ctx, tx, call, o)
		}
		c := coordinator(t, config(store), saga.Register(d))
		park := func(id string) saga.Run {
			start(t, c, store, id, order{Product: id})
			return until(t, c, id, has(saga.Parked))
		}
		closed := func(id string, want bool) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if !want {
				ctx = t.Context()
			}
			defer cancel()
			err := c.Do(ctx, func(claim *lockkeys.Claim) { claim.Exclusive(product(id)) }, func(context.Context) error { return nil })
			if want {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			} else {
				require.NoError(t, err)
			}
		}
		for _, id := range []string{"resume", "skip", "drop", "again"} {
			park(id)
			closed(id, true)
			require.ErrorIs(t, c.Retry(t.Context(), id), saga.ErrNotStuck)
		}
		require.NoError(t, c.Close())
		c = coordinator(t, config(store), saga.Register(d))
		closed("resume", true)

		list, err := c.Parked(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 4)
		assert.Equal(t, "resume", list[0].ID)
		assert.Equal(t, "away", list[0].Steps[1].Error)
		assert.True(t, list[0].Steps[1].Parked)
		assert.Equal(t, []lockkeys.Request{{Key: product("resume"), Mode: lockkeys.Exclusive}}, list[0].Kept)
		assert.Equal(t, []string{"SagaStarted", "StepStarted reserve", "StepCompleted reserve", "StepStarted pay", "StepCompleted pay", "StepStarted ship", "StepFailed ship",
			"CompensationStarted", "UndoStarted pay", "CompensationFailed pay", "SagaParked pay"}, types(list[0]))

		seen, err := c.View(t.Context(), view.Query{Limit: 3})
		require.NoError(t, err)
		assert.Equal(t, "saga", seen.Kind)
		assert.Equal(t, []string{"4 runs are parked: an operator must decide"}, seen.Problems)
		table := seen.Tables[0]
		require.Len(t, table.Rows, 3)
		metrics, err := c.Metrics(t.Context())
		require.NoError(t, err)
		got := map[string]float64{}
		for _, m := range metrics {
			for _, p := range m.Points {
				require.NotContains(t, got, m.Name+p.Of)
				got[m.Name+p.Of] = p.Value
			}
		}
		assert.EqualValues(t, 4, got["interlock.saga.runsparked"])
		assert.EqualValues(t, 0, got["interlock.saga.runsrunning"])
		assert.EqualValues(t, 4, got["interlock.parked.messages"])
		assert.Positive(t, got["interlock.parked.age"])
		assert.Equal(t, 1, table.Hidden)
		assert.Equal(t, []string{"resume", "checkout v1", "parked", "pay (undoing, 1 failed)", "away", product("resume").String()}, table.Rows[0].Cells[:6])
		assert.Equal(t, []string{"resume", "skip", "drop", "undo"}, table.Rows[0].Actions)
		for _, bad := range []view.Action{{Name: "burn", Target: table.Rows[1].Target}, {Name: view.Skip, Target: "skip"}, {Name: view.Skip, Target: "skip @x"}} {
			require.ErrorIs(t, c.Act(asAnn, bad), view.ErrAction)
		}

		require.NoError(t, c.Act(asAnn, view.Action{Name: view.Skip, Target: table.Rows[1].Target}))
		for _, old := range []string{view.Resume, view.Skip, view.Drop} { // of a page that was not reloaded
			require.Error(t, c.Act(asAnn, view.Action{Name: old, Target: table.Rows[1].Target}))
		}
		assert.Equal(t, saga.Compensated, ended(t, c, "skip").Status)
		closed("skip", false)
		assert.Equal(t, []string{"reserved", "paid", "released"}, effectsOf(t, store, "skip"))
		require.NoError(t, c.Drop(asAnn, "drop"))
		run := ended(t, c, "drop")
		assert.Equal(t, saga.Dropped, run.Status)
		closed("drop", false)
		assert.Equal(t, []string{"reserved", "paid"}, effectsOf(t, store, "drop"))
		was, err := c.Run(t.Context(), "again")
		require.NoError(t, err)
		require.NoError(t, c.Act(asAnn, view.Action{Name: view.Resume, Target: was.Target()}))
		until(t, c, "again", func(r saga.Run) bool { return count(r, saga.SagaParked) == 2 })
		require.ErrorIs(t, c.Act(asAnn, view.Action{Name: view.Skip, Target: was.Target()}), saga.ErrNotParked, "it is parked anew")
		possible.Store(true)
		require.NoError(t, c.Resume(asAnn, "resume"))
		assert.Equal(t, saga.Compensated, ended(t, c, "resume").Status)
		closed("resume", false)
		assert.Equal(t, []string{"reserved", "paid", "refunded", "released"}, effectsOf(t, store, "resume"))

		require.ErrorAs(t, c.Resume(asAnn, "resume"), new(*saga.EndedError))
		require.ErrorIs(t, c.Skip(asAnn, "unknown"), saga.ErrNoRun)
		decisions, err := c.Decisions(t.Context(), time.Now().Add(time.Second), 10)
		require.NoError(t, err)
		require.Len(t, decisions, 4)
		for _, d := range decisions {
			assert.Equal(t, "ann", d.Operator)
			assert.Equal(t, "case 17", d.Why)
		}
	})
}

// TestForward: after the pivot what fails for good is parked, and goes on forward.
func TestForward(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	var works atomic.Bool
	c := coordinator(t, config(store), saga.Register(saga.Definition[order]{Name: "d", Version: 1, Steps: []saga.Step[order]{
		{Name: "pay", DoTx: write("paid"), UndoTx: write("refunded"), Pivot: true},
		{Name: "ship", MaxAttempts: 2, Backoff: quick, DoTx: func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error {
			if !works.Load() {
				return errAway
			}
			return write("shipped")(ctx, tx, call, o)
		}},
	}}))
	start(t, c, store, "1", order{})
	start(t, c, store, "2", order{})
	until(t, c, "1", has(saga.Parked))
	until(t, c, "2", has(saga.Parked))
	require.ErrorIs(t, c.Undo(asAnn, "1"), saga.ErrPastPivot)
	require.NoError(t, c.Skip(asAnn, "2"))
	run := ended(t, c, "2")
	assert.Equal(t, saga.Completed, run.Status)
	assert.True(t, run.Steps[1].Skipped)
	assert.Equal(t, []string{"paid"}, effectsOf(t, store, "2"))
	works.Store(true)
	require.NoError(t, c.Resume(asAnn, "1"))
	assert.Equal(t, saga.Completed, ended(t, c, "1").Status)
	assert.Equal(t, []string{"paid", "shipped"}, effectsOf(t, store, "1"))
}

// TestStuck: operators see what does not come on, may have it tried at once, or turn it
// back.
func TestStuck(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		var works atomic.Bool
		d := checkout(func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error {
			if !works.Load() {
				return errAway
			}
			return write("shipped")(ctx, tx, call, o)
		})
		d.Steps[2].Backoff = dispatcher.Backoff{Initial: time.Hour}
		c := coordinator(t, config(store), saga.Register(d))
		failing := func(r saga.Run) bool { return r.Steps[2].Failed > 0 }
		start(t, c, store, "1", order{})
		until(t, c, "1", failing)
		start(t, c, store, "2", order{})
		until(t, c, "2", failing)
		list, err := c.Stuck(t.Context(), time.Hour)
		require.NoError(t, err)
		require.Len(t, list, 2)
		assert.Equal(t, "1", list[0].ID)
		active, err := c.Active(t.Context(), 1)
		require.NoError(t, err)
		require.Len(t, active, 1)
		require.NoError(t, c.Undo(asAnn, "2"))
		run := ended(t, c, "2")
		assert.Equal(t, saga.Compensated, run.Status)
		assert.Equal(t, "turned back by an operator", run.Cause)
		works.Store(true)
		require.NoError(t, c.Retry(asAnn, "1"))
		assert.Equal(t, saga.Completed, ended(t, c, "1").Status)
		list, err = c.Stuck(t.Context(), 0)
		require.NoError(t, err)
		assert.Empty(t, list)
	})
}

// TestKeysFail: a step whose keys cannot be derived is not attempted. If it cannot be
// undone because of that, an operator may have it tried again.
func TestKeysFail(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	var fails atomic.Bool
	c := coordinator(t, config(store), saga.Register(saga.Definition[order]{Name: "d", Version: 1, Steps: []saga.Step[order]{
		{Name: "print", DoTx: write("printed"), UndoTx: write("shredded"), Under: []lockkeys.Key{lockkeys.Must("printer")},
			Keys: func(_ *order, claim *lockkeys.Claim) error {
				if fails.Load() {
					return errAway
				}
				claim.Exclusive(lockkeys.Must("printer"))
				return nil
			}},
		{Name: "send", DoTx: func(context.Context, *sql.Tx, saga.Call, *order) error {
			fails.Store(true)
			return dispatcher.Permanent(errAway)
		}},
	}}))
	start(t, c, store, "1", order{})
	until(t, c, "1", has(saga.Parked))
	require.NoError(t, c.Resume(asAnn, "1"))
	until(t, c, "1", func(r saga.Run) bool { return count(r, saga.SagaParked) == 2 })
	fails.Store(false)
	require.NoError(t, c.Resume(asAnn, "1"))
	assert.Equal(t, saga.Compensated, ended(t, c, "1").Status)
	assert.Equal(t, []string{"printed", "shredded"}, effectsOf(t, store, "1"))
	fails.Store(true)
	start(t, c, store, "2", order{})
	assert.Equal(t, saga.Compensated, ended(t, c, "2").Status)
	assert.Empty(t, effectsOf(t, store, "2"))
}

// TestDropCancels: a call that is under way beside the step for which the run was parked is
// canceled when the run is dropped, since from then on others may have what it kept.
func TestDropCancels(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	canceled := make(chan error, 1)
	c := coordinator(t, config(store), saga.Register(saga.Definition[order]{Name: "d", Version: 1, Steps: []saga.Step[order]{
		{Name: "pivot", Pivot: true, DoTx: write("pivot")},
		{Name: "refused", After: []string{"pivot"}, Do: func(context.Context, saga.Call, *order) error { return dispatcher.Permanent(errAway) }},
		{Name: "beside", After: []string{"pivot"}, Timeout: time.Hour, Do: func(ctx context.Context, _ saga.Call, _ *order) error {
			<-ctx.Done()
			canceled <- context.Cause(ctx)
			return ctx.Err()
		}},
	}}))
	start(t, c, store, "1", order{})
	until(t, c, "1", has(saga.Parked))
	require.NoError(t, c.Drop(asAnn, "1"))
	select {
	case err := <-canceled:
		require.ErrorContains(t, err, "dropped")
	case <-time.After(waitAtMost):
		require.Fail(t, "it goes on")
	}
}
