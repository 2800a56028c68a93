package saga_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/saga"
)

type otherOrder struct{ Name string }

// TestStart: a run is there exactly if its transaction was committed, and once for its ID.
func TestStart(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		other := saga.Definition[otherOrder]{Name: "other", Version: 1, Steps: []saga.Step[otherOrder]{
			{Name: "nothing", DoTx: func(context.Context, *sql.Tx, saga.Call, *otherOrder) error { return nil }}}}
		cfg := config(store)
		var events []*ordering.Event
		fails := false
		cfg.Record = func(_ context.Context, _ *sql.Tx, e *ordering.Event) error {
			if fails {
				return errAway
			}
			if e.CorrelationID == "1" {
				events = append(events, e)
			}
			return nil
		}
		c := coordinator(t, cfg, saga.Register(checkout(write("shipped"))), saga.Register(other))
		begin := func(id string, state any, then error) error {
			return store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
				if err := c.Start(ctx, tx, id, state); err != nil {
					return err
				}
				return then
			})
		}
		require.ErrorIs(t, begin("1", order{}, errAway), errAway)
		_, err := c.Run(t.Context(), "1")
		require.ErrorIs(t, err, saga.ErrNoRun)
		fails = true
		require.ErrorIs(t, begin("1", order{}, nil), errAway)
		fails = false
		require.NoError(t, begin("1", order{Product: "7"}, nil))
		require.NoError(t, begin("1", order{Product: "7"}, nil), "again, while it may be active")
		c.Notify()
		run := ended(t, c, "1")
		require.NoError(t, begin("1", order{Product: "7"}, nil), "again, when it has ended")
		assert.Equal(t, []string{"reserved", "paid", "shipped"}, effectsOf(t, store, "1"))

		var conflict *saga.ConflictError
		require.ErrorAs(t, begin("1", order{Product: "8"}, nil), &conflict)
		assert.True(t, conflict.State)
		require.ErrorAs(t, begin("1", otherOrder{}, nil), &conflict)
		assert.Equal(t, saga.ConflictError{ID: "1", Definition: "checkout", Version: 1}, *conflict)
		require.ErrorContains(t, begin("2", 7, nil), "type int")
		for _, id := range []string{"", "a\x00", "a\n", "\xff", strings.Repeat("x", 201)} {
			require.ErrorIs(t, begin(id, order{}, nil), saga.ErrID)
		}

		t.Log("each event is one of an outbox or an event log")
		events = events[len(events)-len(run.History):] // the first ones are of a transaction that was rolled back
		for i, e := range events {
			assert.Equal(t, run.History[i].Type, e.Type)
			assert.Equal(t, run.History[i].Time, e.Time)
			assert.Equal(t, "1", e.CorrelationID)
			if i > 0 {
				assert.Equal(t, events[i-1].ID, e.CausationID)
			}
		}
		for i, e := range events {
			entry, err := saga.EntryOf(e)
			require.NoError(t, err)
			assert.Equal(t, run.History[i], entry)
		}
		assert.JSONEq(t, `{"definition": "checkout", "version": 1, "n": 1}`, string(events[0].Payload))
		assert.JSONEq(t, `{"n": 3, "step": "reserve"}`, string(events[2].Payload))
		_, err = saga.EntryOf(&ordering.Event{ID: "x"})
		require.ErrorContains(t, err, `event "x"`)

		t.Log("and is forgotten when it is pruned")
		n, err := c.Prune(t.Context(), run.Ended)
		require.NoError(t, err)
		assert.Zero(t, n)
		n, err = c.Prune(t.Context(), run.Ended.Add(1e9))
		require.NoError(t, err)
		assert.EqualValues(t, 1, n)
		_, err = c.Run(t.Context(), "1")
		require.ErrorIs(t, err, saga.ErrNoRun)
	})
}

// TestPruneBesideAnEnd: a run that ends while others are pruned goes with its history, or
// stays with it.
func TestPruneBesideAnEnd(t *testing.T) {
	s, err := server()
	require.NoError(t, err)
	store := open(t, s.Database(t)) // SQLite has one writer at a time
	c := coordinator(t, config(store), saga.Register(asks(waits)))
	for _, id := range []string{"before", "meanwhile"} {
		start(t, c, store, id, order{})
		until(t, c, id, awaiting)
	}
	require.NoError(t, c.Reply(t.Context(), "before", "ask", []byte("yes")))
	ended(t, c, "before")

	lock, err := store.DB().Begin()
	require.NoError(t, err)
	defer func() { _ = lock.Rollback() }()
	for _, table := range []string{"saga_history", "saga_runs"} { // one of them is the first from which it deletes
		_, err = lock.Exec(`SELECT 1 FROM ` + table + ` WHERE id = 'before' FOR UPDATE`)
		require.NoError(t, err)
	}
	pruned := make(chan error, 1)
	go func() {
		_, err := c.Prune(t.Context(), time.Now().Add(time.Hour))
		pruned <- err
	}()
	require.Eventually(t, func() bool {
		var n int
		err := store.DB().QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		return err == nil && n == 1
	}, waitAtMost, time.Millisecond)
	require.NoError(t, c.Reply(t.Context(), "meanwhile", "ask", []byte("yes")))
	ended(t, c, "meanwhile")
	require.NoError(t, lock.Rollback())
	require.NoError(t, <-pruned)

	_, err = c.Run(t.Context(), "before")
	require.ErrorIs(t, err, saga.ErrNoRun)
	if run, err := c.Run(t.Context(), "meanwhile"); err == nil {
		require.Equal(t, saga.SagaStarted, run.History[0].Type)
		return
	}
	start(t, c, store, "meanwhile", order{}) // its ID is free
}

// TestKeysRule: nobody takes keys where the other level does, see saga.Roots.
func TestKeysRule(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	key := lockkeys.MustParse
	def := func(kept, under, keeps, takes string) saga.Definition[order] {
		claims := func(text string) func(*order, *lockkeys.Claim) error {
			return func(_ *order, c *lockkeys.Claim) error { c.Exclusive(key(text)); return nil }
		}
		return saga.Definition[order]{Name: "d", Version: 1, Kept: []lockkeys.Key{key(kept)}, Keep: claims(keeps), Steps: []saga.Step[order]{
			{Name: "first", DoTx: write("first"), UndoTx: write("undone")},
			{Name: "second", DoTx: write("second"), Under: []lockkeys.Key{key(under)}, Keys: claims(takes)}}}
	}
	for _, wrong := range [][2]string{{"a", "a"}, {"a", "a/b"}, {"a/b", "a"}} {
		_, err := saga.New(t.Context(), config(store), saga.Register(def(wrong[0], wrong[1], "a", "b")))
		require.ErrorIs(t, err, saga.ErrConfig)
		require.ErrorIs(t, err, saga.ErrKeys)
		require.ErrorContains(t, err, "step second of definition d, version 1 takes keys there")
	}
	t.Log("also between definitions")
	other := saga.Definition[otherOrder]{Name: "other", Version: 1, Kept: []lockkeys.Key{key("b/c")}, Steps: []saga.Step[otherOrder]{
		{Name: "x", DoTx: func(context.Context, *sql.Tx, saga.Call, *otherOrder) error { return nil }}}}
	_, err := saga.New(t.Context(), config(store), saga.Register(def("a", "b", "a", "b")), saga.Register(other))
	require.ErrorIs(t, err, saga.ErrKeys)

	t.Run("when a run starts", func(t *testing.T) {
		c := coordinator(t, config(store), saga.Register(def("a", "b", "x", "b")))
		err := store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return c.Start(ctx, tx, "0", order{}) })
		var wrong *saga.KeysError
		require.ErrorAs(t, err, &wrong)
		assert.Equal(t, key("x"), wrong.Key)
	})
	t.Run("when a step starts", func(t *testing.T) {
		d := def("a", "b", "a", "a")
		c := coordinator(t, config(store), saga.Register(d))
		start(t, c, store, "1", order{})
		run := ended(t, c, "1")
		assert.Equal(t, saga.Compensated, run.Status)
		assert.Contains(t, run.Cause, "key a is under none of the keys in Under of the step")
		assert.Equal(t, []string{"first", "undone"}, effectsOf(t, store, "1"))
	})
	t.Run("of other code", func(t *testing.T) {
		c := coordinator(t, config(store), saga.Register(def("a", "b", "a", "b")))
		do := func(keys ...string) error {
			return c.Do(t.Context(), func(claim *lockkeys.Claim) {
				for _, k := range keys {
					claim.Exclusive(key(k))
				}
			}, func(context.Context) error { return nil })
		}
		require.NoError(t, do("a", "c"))
		require.NoError(t, do("b/1", "b/2"))
		require.ErrorIs(t, do("a", "b/1"), saga.ErrKeys)
		require.ErrorIs(t, do("c", "b"), saga.ErrKeys)
		require.ErrorIs(t, do("/"), saga.ErrKeys)
	})
}

// TestWhatIsNotGiven is named, and not found by its use.
func TestWhatIsNotGiven(t *testing.T) {
	c := coordinator(t, config(open(t, filepath.Join(t.TempDir(), "saga.db"))), saga.Register(checkout(write("shipped"))))
	require.ErrorContains(t, c.Start(t.Context(), nil, "1", order{}), `run "1": the transaction is nil`)
	require.ErrorContains(t, c.Start(t.Context(), nil, "1", &order{}), "not a pointer")
	require.EqualError(t, c.Do(t.Context(), nil, nil), "saga: Do: claim or do is nil")
}
