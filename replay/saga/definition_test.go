package saga_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/replay/saga"
)

func nothing(context.Context, saga.Call, *order) error { return nil }

// TestBadDefinitions: every problem is named at once.
func TestBadDefinitions(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	type steps = []saga.Step[order]
	for name, test := range map[string]struct {
		steps steps
		want  string
	}{
		"no steps":           {nil, "has no steps"},
		"no action":          {steps{{Name: "a"}}, "one of DoTx and Do must be set"},
		"two actions":        {steps{{Name: "a", Do: nothing, DoTx: write("a")}}, "one of DoTx and Do must be set"},
		"mixed with Undo":    {steps{{Name: "a", DoTx: write("a"), Undo: nothing}}, "Undo and Find belong to Do"},
		"mixed with UndoTx":  {steps{{Name: "a", Do: nothing, UndoTx: write("a")}}, "UndoTx belongs to DoTx"},
		"a name with /":      {steps{{Name: "a/b", Do: nothing}}, "without spaces, control characters and /"},
		"the same name":      {steps{{Name: "a", Do: nothing}, {Name: "a", Do: nothing}}, "two steps are called"},
		"after itself":       {steps{{Name: "a", Do: nothing, After: []string{"a"}}}, "no step before it"},
		"after nobody":       {steps{{Name: "a", Do: nothing, After: []string{"b"}}}, "no step before it"},
		"two pivots":         {steps{{Name: "a", Do: nothing, Pivot: true}, {Name: "b", Do: nothing, Pivot: true}}, "two pivots"},
		"beside the pivot":   {steps{{Name: "a", Do: nothing}, {Name: "b", Do: nothing, After: []string{}, Pivot: true}}, "not all steps before it"},
		"past the pivot":     {steps{{Name: "a", Do: nothing, Pivot: true}, {Name: "b", Do: nothing, After: []string{}}}, "does not come after the pivot"},
		"negative attempts":  {steps{{Name: "a", Do: nothing, MaxAttempts: -1}}, "MaxAttempts is -1"},
		"negative calls":     {steps{{Name: "a", Do: nothing, MaxCalls: -1}}, "MaxCalls is -1"},
		"a negative timeout": {steps{{Name: "a", Do: nothing, Timeout: -1}}, "must not be negative"},
		"a bad back-off":     {steps{{Name: "a", Do: nothing, Backoff: dispatcher.Backoff{Multiplier: 0.5}}}, "Multiplier"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := saga.New(t.Context(), saga.Config{Store: store, Workers: -1}, saga.Register(saga.Definition[order]{Name: "d", Version: 1, Steps: test.steps}))
			require.ErrorIs(t, err, saga.ErrConfig)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, "Workers is -1")
		})
	}
	good := checkout(write("shipped"))
	other := good
	other.Name = "same type"
	_, err := saga.New(t.Context(), saga.Config{}, saga.Register(good), saga.Register(good), saga.Register(other))
	for _, want := range []string{"Store is nil", "is registered twice", "have the same type of state"} {
		require.ErrorContains(t, err, want)
	}
}

// TestVersions: a run keeps its version. A coordinator without it does not begin, unless
// it can upgrade the run.
func TestVersions(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		one := checkout(func(context.Context, *sql.Tx, saga.Call, *order) error { return errAway })
		one.Steps[2].MaxAttempts = 1000000
		c := coordinator(t, config(store), saga.Register(one))
		for _, id := range []string{"1", "2"} {
			start(t, c, store, id, order{Product: id})
			until(t, c, id, func(r saga.Run) bool { return r.Steps[2].Failed > 0 })
		}
		require.NoError(t, c.Close())

		two := checkout(write("sent"))
		two.Version = 2
		_, err := saga.New(t.Context(), config(store), saga.Register(two))
		var missing *saga.MissingError
		require.ErrorAs(t, err, &missing)
		assert.Equal(t, []saga.Missing{{Definition: "checkout", Version: 1, Runs: 2}}, missing.Missing)
		require.ErrorContains(t, err, `"checkout" version 1 (2 runs)`)

		t.Log("both versions: each run has its own")
		c = coordinator(t, config(store), saga.Register(two), saga.Register(one))
		start(t, c, store, "3", order{})
		assert.Equal(t, 2, ended(t, c, "3").Version)
		run, err := c.Run(t.Context(), "1")
		require.NoError(t, err)
		assert.Equal(t, 1, run.Version)
		require.NoError(t, c.Cancel(t.Context(), "1", "no longer wanted"))
		assert.Equal(t, saga.Compensated, ended(t, c, "1").Status)
		require.NoError(t, c.Close())

		t.Log("an upgrade")
		two.Upgrade = func(from int, state json.RawMessage) (o order, err error) {
			err = json.Unmarshal(state, &o)
			o.Paid = "in version " + string(rune('0'+from))
			return o, err
		}
		c = coordinator(t, config(store), saga.Register(two))
		run = ended(t, c, "2")
		assert.Equal(t, saga.Completed, run.Status)
		assert.Equal(t, 2, run.Version)
		assert.Equal(t, 1, count(run, saga.SagaUpgraded))
		assert.Contains(t, string(run.State), "in version 1")
		assert.Equal(t, []string{"reserved", "paid", "sent"}, effectsOf(t, store, "2"))
	})
}

// TestNotTheSameVersion: a version that was changed is not run, and that is said loudly.
func TestNotTheSameVersion(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	d := checkout(func(context.Context, *sql.Tx, saga.Call, *order) error { return errAway })
	d.Steps[2].MaxAttempts = 1000000
	c := coordinator(t, config(store), saga.Register(d))
	start(t, c, store, "1", order{})
	until(t, c, "1", func(r saga.Run) bool { return r.Steps[2].Failed > 0 })
	require.NoError(t, c.Close())
	changed := d
	changed.Steps = d.Steps[:2]
	_, err := saga.New(t.Context(), config(store), saga.Register(changed))
	require.ErrorContains(t, err, "a released version must not be changed")
	c = coordinator(t, config(store), saga.Register(d))
	run, err := c.Run(t.Context(), "1")
	require.NoError(t, err)
	assert.Equal(t, saga.Running, run.Status)
	stuck, err := c.Stuck(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Len(t, stuck, 1)
}

// TestDefinitionsAreCopied: the next version may be made of the one before, which stays what it
// was.
func TestDefinitionsAreCopied(t *testing.T) {
	replied := func(what string) func(context.Context, *sql.Tx, saga.Call, *order, []byte) error {
		return func(_ context.Context, _ *sql.Tx, _ saga.Call, o *order, _ []byte) error {
			o.Log = append(o.Log, what)
			return nil
		}
	}
	store := open(t, t.TempDir()+"/saga.db")
	d := asks(waits)
	d.Steps[1].OnReply = replied("first")
	first := saga.Register(d)
	d.Version = 2
	d.Steps[1].OnReply = replied("second")
	second := saga.Register(d)

	c := coordinator(t, config(store), first)
	start(t, c, store, "1", order{})
	until(t, c, "1", awaiting)
	require.NoError(t, c.Close())
	c = coordinator(t, config(store), first, second)
	start(t, c, store, "2", order{})
	until(t, c, "2", awaiting)
	for id, want := range map[string]string{"1": "first", "2": "second"} {
		require.NoError(t, c.Reply(t.Context(), id, "ask", []byte("yes")))
		assert.Contains(t, string(ended(t, c, id).State), want)
	}
}
