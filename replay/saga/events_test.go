package saga_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/eventlog"
	"github.com/interlock-go/interlock/replay/outbox"
	"github.com/interlock-go/interlock/replay/saga"
)

// TestEventsAreRecorded: what has happened to a run is numbered in the transaction in
// which it happens, by an outbox or an event log.
func TestEventsAreRecorded(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		dialect := outbox.SQLite
		if store.MaxHandlers() > 0 {
			dialect = outbox.PostgreSQL
		}
		box, err := outbox.New(t.Context(), store.DB(), dialect, outbox.Config{})
		require.NoError(t, err)
		fails := saga.Register(checkout(func(context.Context, *sql.Tx, saga.Call, *order) error { return errAway }))
		cfg := config(store)
		cfg.Record = func(ctx context.Context, tx *sql.Tx, e *ordering.Event) error {
			_, err := box.Enqueue(ctx, tx, e, lockkeys.Must("saga", e.CorrelationID))
			return err
		}
		c := coordinator(t, cfg, fails)
		start(t, c, store, "1", order{})
		run := ended(t, c, "1")
		answer, err := box.Fetch(t.Context(), ordering.Range{Stream: lockkeys.Must("saga", "1"), From: 1, To: 100})
		require.NoError(t, err)
		require.Len(t, answer.Events, len(run.History))
		for i, e := range answer.Events {
			assert.Equal(t, run.History[i].Type, e.Type)
			assert.EqualValues(t, i+1, e.Positions[0].Number)
		}
		require.NoError(t, c.Close())

		log, err := eventlog.New(t.Context(), store.DB(), dialect, eventlog.Config{})
		require.NoError(t, err)
		cfg.Record = func(ctx context.Context, tx *sql.Tx, e *ordering.Event) error {
			e.Positions = []ordering.Position{{Stream: lockkeys.Must("saga", e.CorrelationID)}}
			_, err := log.Append(ctx, tx, []*ordering.Event{e})
			return err
		}
		c = coordinator(t, cfg, fails)
		start(t, c, store, "2", order{})
		run = ended(t, c, "2")
		n := 0
		for e, err := range log.Read(t.Context(), eventlog.Query{Stream: lockkeys.Must("saga", "2")}) {
			require.NoError(t, err)
			assert.Equal(t, run.History[n].Type, e.Event.Type)
			n++
		}
		assert.Len(t, run.History, n)
	})
}

// TestRecordPanics: that says nothing of the step whose event it was called for.
func TestRecordPanics(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		cfg, left := config(store), 10
		cfg.Record = func(_ context.Context, _ *sql.Tx, e *ordering.Event) error {
			if left--; e.Type == saga.StepCompleted && left > 0 {
				panic("a bug")
			}
			return nil
		}
		c := coordinator(t, cfg, saga.Register(checkout(write("shipped"))))
		start(t, c, store, "1", order{})
		run := ended(t, c, "1")
		require.Equal(t, saga.Completed, run.Status)
		require.NotContains(t, types(run), "StepFailed reserve")
	})
}
