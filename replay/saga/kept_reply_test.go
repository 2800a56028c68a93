package saga_test

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/replay/saga"
)

// repliesOf returns how many replies were repeated, and how many dropped.
func repliesOf(t *testing.T, c *saga.Coordinator) (repeated, dropped float64) {
	t.Helper()
	list, err := c.Metrics(t.Context())
	require.NoError(t, err)
	return metric(t, list, "interlock.saga.replies.repeated").Points[0].Value, metric(t, list, "interlock.saga.replies.dropped").Points[0].Value
}

// A step may take several replies, each once, also if the first one comes before it waits.
func TestRepliesInParts(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		var c *saga.Coordinator
		early := make(chan error, 1)
		c = coordinator(t, config(store), saga.Register(asks(func(ctx context.Context, call saga.Call, _ *order) error {
			early <- c.Reply(ctx, call.Saga, "ask", []byte("later"))
			return saga.Wait
		})))
		start(t, c, store, "1", order{})
		require.NoError(t, <-early)
		run := until(t, c, "1", func(r saga.Run) bool { return count(r, saga.StepWaits) == 2 })
		require.Equal(t, saga.Awaiting, run.Steps[1].Status)
		require.NoError(t, c.Reply(t.Context(), "1", "ask", []byte("later")), "it is delivered again")
		require.NoError(t, c.Reply(t.Context(), "1", "ask", []byte("yes")))
		run = ended(t, c, "1")
		assert.Equal(t, saga.Completed, run.Status)
		assert.JSONEq(t, `{"Product": "", "Log": ["reserved", "later", "replied", "shipped"], "Refused": "", "Paid": "yes"}`, string(run.State))
		require.NoError(t, c.Reply(t.Context(), "1", "ask", []byte("later")), "when all is over")
		require.ErrorIs(t, c.Reply(t.Context(), "1", "ask", []byte("another")), saga.ErrReplied)
		repeated, dropped := repliesOf(t, c)
		assert.EqualValues(t, 2, repeated)
		assert.Zero(t, dropped)
	})
}

// A reply that was kept outlives the process, also an empty one.
func TestEarlyReplyOutlivesARestart(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		inside := make(chan struct{}, 2)
		d := asks(waits)
		d.Steps[0] = saga.Step[order]{Name: "reserve", Do: func(ctx context.Context, _ saga.Call, _ *order) error {
			inside <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}}
		c, err := saga.New(t.Context(), config(store), saga.Register(d))
		require.NoError(t, err)
		bodies := map[string][]byte{"empty": {}, "none": nil, "some": []byte("yes")}
		for id, body := range bodies {
			start(t, c, store, id, order{})
			<-inside
			require.NoError(t, c.Reply(t.Context(), id, "ask", body))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = c.Shutdown(ctx) // the calls are cut off
		require.NoError(t, c.Close())
		d.Steps[0].Do = nothing
		c = coordinator(t, config(store), saga.Register(d))
		for id, body := range bodies {
			require.Equal(t, saga.Completed, ended(t, c, id).Status, id)
			assert.Equal(t, []string{"replied", "shipped"}, effectsOf(t, store, id))
			require.NoError(t, c.Reply(t.Context(), id, "ask", body))
		}
	})
}

// A reply that was kept is not lost with an attempt that fails, nor if it cannot be taken
// at first.
func TestEarlyReplyOutlivesAFailedAttempt(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		var c *saga.Coordinator
		var calls, takes atomic.Int32
		d := asks(func(ctx context.Context, call saga.Call, _ *order) error {
			if calls.Add(1) == 1 {
				return errors.Join(c.Reply(ctx, call.Saga, "ask", []byte("yes")), errAway)
			}
			return saga.Wait
		})
		d.Steps[1].Backoff = quick
		take := d.Steps[1].OnReply
		d.Steps[1].OnReply = func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order, body []byte) error {
			if takes.Add(1) == 1 {
				return errAway
			}
			return take(ctx, tx, call, o, body)
		}
		c = coordinator(t, config(store), saga.Register(d))
		start(t, c, store, "1", order{})
		run := ended(t, c, "1")
		assert.Equal(t, saga.Completed, run.Status)
		assert.Contains(t, string(run.State), `"yes"`)
		assert.Equal(t, []string{"reserved", "replied", "shipped"}, effectsOf(t, store, "1"))
		assert.EqualValues(t, 3, calls.Load())
		assert.EqualValues(t, 2, takes.Load())
	})
}

// A run that has turned back takes no reply, and tells that it drops one that it has kept.
func TestRepliesToARunThatTurnsBack(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		inside, goOn := make(chan struct{}), make(chan struct{})
		d := asks(waits)
		d.Steps[0] = saga.Step[order]{Name: "reserve", Do: func(context.Context, saga.Call, *order) error {
			inside <- struct{}{}
			<-goOn
			return nil
		}}
		d.Steps[2] = saga.Step[order]{Name: "ship", Do: waits}
		c := coordinator(t, config(store), saga.Register(d))
		start(t, c, store, "1", order{})
		<-inside
		reply := func(step string) error { return c.Reply(t.Context(), "1", step, []byte("yes")) }
		require.NoError(t, reply("ask"))
		require.NoError(t, c.Cancel(t.Context(), "1", "changed mind"))
		require.ErrorIs(t, reply("ask"), saga.ErrNotAwaiting, "it was dropped")
		require.ErrorIs(t, reply("ship"), saga.ErrNotAwaiting)
		require.ErrorIs(t, reply("reserve"), saga.ErrNotAwaiting)
		close(goOn)
		assert.Equal(t, saga.Compensated, ended(t, c, "1").Status)
		require.ErrorAs(t, reply("ask"), new(*saga.EndedError))
		_, dropped := repliesOf(t, c)
		assert.EqualValues(t, 1, dropped)
	})
}

// What was refused by a reply, and is tried again by an operator, takes another reply.
func TestReplyAfterResume(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		d := asks(waits)
		d.Steps[0].Pivot = true
		c := coordinator(t, config(store), saga.Register(d))
		start(t, c, store, "1", order{})
		reply := func(body string) error { return c.Reply(t.Context(), "1", "ask", []byte(body)) }
		for range 2 {
			until(t, c, "1", awaiting)
			require.NoError(t, reply("no"))
			until(t, c, "1", has(saga.Parked))
			require.NoError(t, reply("no"))
			require.ErrorIs(t, reply("yes"), saga.ErrReplied)
			require.NoError(t, c.Resume(asAnn, "1"))
		}
		until(t, c, "1", awaiting)
		require.NoError(t, reply("yes"))
		assert.Equal(t, saga.Completed, ended(t, c, "1").Status)
		assert.Equal(t, []string{"reserved", "replied", "shipped"}, effectsOf(t, store, "1"))
	})
}

// A request that was written in the transaction of its step, and has no reply in time, may
// have been carried out: so the step is undone, or parked if it is the pivot.
func TestNoReplyToARequestInATransaction(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		d := asks(nil)
		d.Steps[1].Undo, d.Steps[1].UndoTx = nil, write("withdrawn")
		d.Steps[1].ReplyTimeout, d.Steps[1].MaxAttempts = time.Millisecond, 1
		d.Steps[1].DoTx = func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error {
			if call.Attempt > 1 {
				return dispatcher.Permanent(errAway)
			}
			return askIn(ctx, tx, call, o)
		}
		withdrawn := []string{"reserved", "asked", "withdrawn", "released"}
		c := coordinator(t, config(store), saga.Register(d))
		start(t, c, store, "1", order{})
		assert.Equal(t, saga.Compensated, ended(t, c, "1").Status)
		assert.Equal(t, withdrawn, effectsOf(t, store, "1"))
		require.NoError(t, c.Close())

		t.Log("also if a further attempt is refused")
		d.Version, d.Steps[1].MaxAttempts, d.Steps[1].Backoff = 2, 2, quick
		c = coordinator(t, config(store), saga.Register(d))
		start(t, c, store, "2", order{})
		assert.Equal(t, saga.Compensated, ended(t, c, "2").Status)
		assert.Equal(t, withdrawn, effectsOf(t, store, "2"))
		require.NoError(t, c.Close())

		t.Log("also if the run is canceled before that, or the next attempt comes after a restart")
		d.Version, d.Steps[1].Backoff = 3, dispatcher.Backoff{Initial: time.Hour}
		c = coordinator(t, config(store), saga.Register(d))
		for _, id := range []string{"3", "4"} {
			start(t, c, store, id, order{})
			until(t, c, id, func(r saga.Run) bool { return r.Steps[1].Failed == 1 })
		}
		require.NoError(t, c.Cancel(t.Context(), "3", "changed mind"))
		assert.Equal(t, saga.Compensated, ended(t, c, "3").Status)
		assert.Equal(t, withdrawn, effectsOf(t, store, "3"))
		require.NoError(t, c.Close())
		c = coordinator(t, config(store), saga.Register(d))
		assert.Equal(t, saga.Compensated, ended(t, c, "4").Status)
		assert.Equal(t, withdrawn, effectsOf(t, store, "4"))
		require.NoError(t, c.Close())

		t.Log("the pivot")
		d.Version, d.Steps[1].Pivot, d.Steps[1].MaxAttempts = 4, true, 1
		c = coordinator(t, config(store), saga.Register(d))
		start(t, c, store, "5", order{})
		until(t, c, "5", has(saga.Parked))
		require.NoError(t, c.Undo(asAnn, "5"))
		assert.Equal(t, saga.Compensated, ended(t, c, "5").Status)
		assert.Equal(t, withdrawn, effectsOf(t, store, "5"))
	})
}

// askIn writes a request, and waits for the reply.
func askIn(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error {
	if err := write("asked")(ctx, tx, call, o); err != nil {
		return err
	}
	return saga.Wait
}
