package saga_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/replay/saga"
)

// checkout is a saga of three steps in the store's database, the last of which does what
// it is told.
func checkout(last func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error) saga.Definition[order] {
	return saga.Definition[order]{
		Name: "checkout", Version: 1, Keep: keepProduct, Kept: products,
		Steps: []saga.Step[order]{
			{Name: "reserve", DoTx: write("reserved"), UndoTx: write("released")},
			{Name: "pay", DoTx: write("paid"), UndoTx: write("refunded")},
			{Name: "ship", DoTx: last, Backoff: quick, MaxAttempts: 3},
		},
	}
}

func TestCompleted(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		c := coordinator(t, config(store), saga.Register(checkout(write("shipped"))))
		start(t, c, store, "1", order{Product: "7"})
		run := ended(t, c, "1")
		assert.Equal(t, saga.Completed, run.Status)
		assert.Equal(t, []string{"reserved", "paid", "shipped"}, effectsOf(t, store, "1"))
		assert.JSONEq(t, `{"Product": "7", "Log": ["reserved", "paid", "shipped"], "Refused": "", "Paid": ""}`, string(run.State))
		assert.Equal(t, []string{"SagaStarted", "StepStarted reserve", "StepCompleted reserve", "StepStarted pay", "StepCompleted pay",
			"StepStarted ship", "StepCompleted ship", "SagaCompleted"}, types(run))
	})
}

func TestCompensated(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		c := coordinator(t, config(store), saga.Register(checkout(func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error {
			require.NoError(t, write("shipped")(ctx, tx, call, o))
			return errAway
		})))
		start(t, c, store, "1", order{Product: "7"})
		run := ended(t, c, "1")
		assert.Equal(t, saga.Compensated, run.Status)
		assert.Equal(t, []string{"reserved", "paid", "refunded", "released"}, effectsOf(t, store, "1"))
		assert.Equal(t, []string{"SagaStarted", "StepStarted reserve", "StepCompleted reserve", "StepStarted pay", "StepCompleted pay",
			"StepStarted ship", "StepFailed ship", "StepFailed ship", "StepFailed ship", "CompensationStarted",
			"UndoStarted pay", "StepCompensated pay", "UndoStarted reserve", "StepCompensated reserve", "SagaCompensated"}, types(run))
		assert.Equal(t, "step ship: away", run.Cause)

		t.Log("an error that is permanent is the last one, and a panic is an error")
		second := checkout(func(context.Context, *sql.Tx, saga.Call, *order) error { panic("loudly") })
		second.Version = 2
		require.NoError(t, c.Close())
		c = coordinator(t, config(store), saga.Register(second))
		start(t, c, store, "2", order{})
		run = ended(t, c, "2")
		assert.Equal(t, 3, count(run, saga.StepFailed))
		assert.Contains(t, run.Cause, "loudly")
		third := checkout(func(context.Context, *sql.Tx, saga.Call, *order) error { return dispatcher.Permanent(errAway) })
		third.Version = 3
		require.NoError(t, c.Close())
		c = coordinator(t, config(store), saga.Register(third))
		start(t, c, store, "3", order{})
		assert.Equal(t, 1, count(ended(t, c, "3"), saga.StepFailed))
	})
}

func count(run saga.Run, kind string) (n int) {
	for _, e := range run.History {
		if e.Type == kind {
			n++
		}
	}
	return n
}
