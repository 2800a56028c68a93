package saga_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/replay/saga"
)

// asks is a saga whose second step waits for a reply.
func asks(ask func(ctx context.Context, call saga.Call, o *order) error) saga.Definition[order] {
	return saga.Definition[order]{Name: "asks", Version: 1, Keep: keepProduct, Kept: products, Steps: []saga.Step[order]{
		{Name: "reserve", DoTx: write("reserved"), UndoTx: write("released")},
		{Name: "ask", Do: ask, Undo: nothing, Backoff: quick,
			OnReply: func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order, body []byte) error {
				switch string(body) {
				case "no":
					return dispatcher.Permanent(errAway)
				case "later":
					o.Log = append(o.Log, "later")
					return saga.Wait
				case "unreadable":
					return errAway
				}
				o.Paid = string(body)
				return write("replied")(ctx, tx, call, o)
			}},
		{Name: "ship", DoTx: write("shipped")},
	}}
}

func waits(context.Context, saga.Call, *order) error { return saga.Wait }

func awaiting(r saga.Run) bool { return r.Steps[1].Status == saga.Awaiting }

func TestReply(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		c := coordinator(t, config(store), saga.Register(asks(waits)))
		ctx := t.Context()
		reply := func(id, body string) error { return c.Reply(ctx, id, "ask", []byte(body)) }
		start(t, c, store, "1", order{})
		until(t, c, "1", awaiting)
		require.ErrorIs(t, reply("1", "unreadable"), errAway)
		require.NoError(t, reply("1", "later"))
		require.NoError(t, reply("1", "yes"))
		require.NoError(t, reply("1", "yes"), "twice")
		run := ended(t, c, "1")
		assert.Equal(t, saga.Completed, run.Status)
		assert.Equal(t, []string{"reserved", "replied", "shipped"}, effectsOf(t, store, "1"))
		assert.Contains(t, string(run.State), `"later"`)
		require.NoError(t, reply("1", "yes"), "when all is over")
		require.ErrorIs(t, reply("1", "another"), saga.ErrReplied)
		require.ErrorIs(t, reply("unknown", "yes"), saga.ErrNoRun)

		t.Log("a refusal")
		start(t, c, store, "2", order{})
		until(t, c, "2", awaiting)
		require.ErrorContains(t, c.Reply(ctx, "2", "nobody", nil), "no such step")
		require.NoError(t, reply("2", "no"))
		assert.Equal(t, saga.Compensated, ended(t, c, "2").Status)
		require.NoError(t, reply("2", "no"))
		assert.Equal(t, []string{"reserved", "released"}, effectsOf(t, store, "2"))

		t.Log("a run that waits survives a restart, and a late reply is refused")
		start(t, c, store, "3", order{})
		start(t, c, store, "4", order{})
		until(t, c, "3", awaiting)
		until(t, c, "4", awaiting)
		require.NoError(t, c.Close())
		require.ErrorIs(t, reply("3", "yes"), saga.ErrClosed)
		c = coordinator(t, config(store), saga.Register(asks(waits)))
		require.NoError(t, reply("3", "yes"))
		assert.Equal(t, saga.Completed, ended(t, c, "3").Status)
		require.NoError(t, c.Cancel(ctx, "4", "changed mind"))
		run = ended(t, c, "4")
		assert.Equal(t, saga.Compensated, run.Status)
		assert.Equal(t, "canceled: changed mind", run.Cause)
		var over *saga.EndedError
		require.ErrorAs(t, reply("4", "yes"), &over)
	})
}

// TestEarlyReply: a reply may come before the step waits, and even before it begins.
func TestEarlyReply(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		var c *saga.Coordinator
		d := asks(func(ctx context.Context, call saga.Call, _ *order) error {
			if call.Saga == "1" {
				require.NoError(t, c.Reply(ctx, call.Saga, "ask", []byte("at once")))
				require.NoError(t, c.Reply(ctx, call.Saga, "ask", []byte("at once")))
				require.ErrorIs(t, c.Reply(ctx, call.Saga, "ask", []byte("another")), saga.ErrReplied)
			}
			return saga.Wait
		})
		c = coordinator(t, config(store), saga.Register(d))
		start(t, c, store, "1", order{})
		assert.Contains(t, string(ended(t, c, "1").State), "at once")
		require.NoError(t, store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return c.Start(ctx, tx, "2", order{}) }))
		require.NoError(t, c.Reply(t.Context(), "2", "ask", []byte("before")))
		assert.Contains(t, string(ended(t, c, "2").State), "before")
		assert.Equal(t, []string{"reserved", "replied", "shipped"}, effectsOf(t, store, "2"))
	})
}

// TestWaitJoinedWithAFailure: an error that is joined with Wait is a failure, wherever it
// comes from, and Wait that is only wrapped is Wait.
func TestWaitJoinedWithAFailure(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	bad := map[string]func() error{
		"joined":     func() error { return errors.Join(errAway, saga.Wait) },
		"behind":     func() error { return fmt.Errorf("request: %w", errors.Join(saga.Wait, errAway)) },
		"formatted":  func() error { return fmt.Errorf("%w, but %w", saga.Wait, errAway) },
		"a panic":    func() error { panic(saga.Wait) },
		"only other": func() error { return errors.Join(errAway) },
	}
	good := []error{saga.Wait, fmt.Errorf("for the bank: %w", saga.Wait), errors.Join(nil, saga.Wait), errors.Join(saga.Wait, fmt.Errorf("both: %w", saga.Wait))}
	result := func(call saga.Call) error {
		if fail := bad[call.Saga]; fail != nil {
			return fail()
		}
		return good[len(call.Saga)]
	}
	remote := func(_ context.Context, call saga.Call, _ *order) error { return result(call) }
	inTx := func(_ context.Context, _ *sql.Tx, call saga.Call, _ *order) error { return result(call) }
	for name, step := range map[string]saga.Step[order]{"Do": {Do: remote}, "DoTx": {DoTx: inTx}} {
		step.Name, step.MaxAttempts, step.Backoff = "ask", 2, quick
		cfg := config(store)
		cfg.Name = name
		c := coordinator(t, cfg, saga.Register(saga.Definition[order]{Name: "d", Version: 1, Steps: []saga.Step[order]{step}}))
		for id := range bad {
			start(t, c, store, id, order{})
			run := ended(t, c, id)
			assert.Equal(t, saga.Compensated, run.Status, "%s, %s", name, id)
			assert.Equal(t, 2, count(run, saga.StepFailed), "%s, %s", name, id)
		}
		for i := range good[1:] {
			id := strings.Repeat("+", i+1)
			start(t, c, store, id, order{})
			until(t, c, id, func(r saga.Run) bool { return r.Steps[0].Status == saga.Awaiting })
		}
		require.NoError(t, c.Close())
	}
}

// TestNoReply: without a reply in time the step is done again, with the same key.
func TestNoReply(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	calls := make(chan string, 100)
	d := asks(func(_ context.Context, call saga.Call, _ *order) error { calls <- call.Key(); return saga.Wait })
	d.Steps[1].ReplyTimeout, d.Steps[1].MaxAttempts = time.Millisecond, 3
	c := coordinator(t, config(store), saga.Register(d))
	start(t, c, store, "1", order{})
	run := ended(t, c, "1")
	assert.Equal(t, saga.Compensated, run.Status)
	assert.Contains(t, run.Cause, "no reply within ReplyTimeout")
	close(calls)
	n := 0
	for key := range calls {
		assert.Equal(t, "1/ask/do", key)
		n++
	}
	assert.Equal(t, 3, n)
}

// TestRequestInATransaction: a step can write its request where it is recorded, into an
// outbox for example, and wait for the reply.
func TestRequestInATransaction(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		d := asks(nil)
		d.Steps[1].Undo = nil
		d.Steps[1].DoTx = func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error {
			if err := write("asked")(ctx, tx, call, o); err != nil {
				return err
			}
			return saga.Wait
		}
		c := coordinator(t, config(store), saga.Register(d))
		start(t, c, store, "1", order{})
		until(t, c, "1", awaiting)
		require.NoError(t, c.Reply(t.Context(), "1", "ask", []byte("yes")))
		ended(t, c, "1")
		assert.Equal(t, []string{"reserved", "asked", "replied", "shipped"}, effectsOf(t, store, "1"))
	})
}
