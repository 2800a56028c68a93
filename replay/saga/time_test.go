package saga_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/replay/saga"
)

// inBubble runs a test with a store and times that do not pass by themselves.
func inBubble(t *testing.T, test func(t *testing.T, where string)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { test(t, dir+"/saga.db") })
}

// inTime is config without frequent polls.
func inTime(store *sqlstore.Store) saga.Config {
	cfg := config(store)
	cfg.Poll = time.Hour
	return cfg
}

// TestBackoff: the pauses between attempts are those of the step, and Retry cuts one short.
func TestBackoff(t *testing.T) {
	inBubble(t, func(t *testing.T, where string) {
		store := open(t, where)
		c := coordinator(t, inTime(store), saga.Register(saga.Definition[order]{Name: "d", Version: 1, Steps: []saga.Step[order]{
			{Name: "pay", MaxAttempts: 5, Backoff: dispatcher.Backoff{Initial: time.Second, Max: time.Hour, Jitter: -1},
				Do: func(context.Context, saga.Call, *order) error { return errAway }}}}))
		start(t, c, store, "1", order{})
		time.Sleep(5 * time.Second)
		require.NoError(t, c.Retry(t.Context(), "1"))
		time.Sleep(time.Minute)
		run, err := c.Run(t.Context(), "1")
		require.NoError(t, err)
		require.Equal(t, saga.Compensated, run.Status)
		var at []time.Duration
		for _, e := range run.History {
			if e.Type == saga.StepFailed {
				at = append(at, e.Time.Sub(run.Started))
			}
		}
		assert.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 5 * time.Second, 13 * time.Second}, at)
	})
}

// TestTimeLimits: of an attempt, and of a wait for a reply.
func TestTimeLimits(t *testing.T) {
	inBubble(t, func(t *testing.T, where string) {
		store := open(t, where)
		d := saga.Definition[order]{Name: "d", Version: 1, Steps: []saga.Step[order]{
			{Name: "ask", MaxAttempts: 1, ReplyTimeout: time.Minute, Do: waits},
			{Name: "pay", MaxAttempts: 1, Timeout: time.Second, Do: func(ctx context.Context, _ saga.Call, _ *order) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}}}}
		c := coordinator(t, inTime(store), saga.Register(d))
		start(t, c, store, "1", order{})
		start(t, c, store, "2", order{})
		time.Sleep(59 * time.Second)
		require.NoError(t, c.Reply(t.Context(), "2", "ask", nil))
		time.Sleep(2 * time.Second)
		for id, cause := range map[string]string{"1": "step ask: saga: no reply within ReplyTimeout", "2": "step pay: " + dispatcher.ErrTimeout.Error()} {
			run, err := c.Run(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, saga.Compensated, run.Status, id)
			assert.Equal(t, cause, run.Cause)
			assert.Equal(t, time.Minute, run.Ended.Sub(run.Started))
		}
	})
}

// TestReplyTimeoutAcrossARestart: the wait for a reply counts from when the step asked, and
// goes on while no coordinator is there; each attempt has a wait of its own.
func TestReplyTimeoutAcrossARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, where string) {
		store := open(t, where)
		d := saga.Definition[order]{Name: "d", Version: 1, Steps: []saga.Step[order]{{Name: "ask", MaxAttempts: 2, ReplyTimeout: time.Minute,
			Backoff: dispatcher.Backoff{Initial: time.Second, Jitter: -1}, Do: waits,
			OnReply: func(context.Context, *sql.Tx, saga.Call, *order, []byte) error { return saga.Wait }}}}
		c := coordinator(t, inTime(store), saga.Register(d))
		start(t, c, store, "1", order{})
		for range 3 {
			time.Sleep(25 * time.Second)
			require.NoError(t, c.Reply(t.Context(), "1", "ask", []byte(time.Now().String())), "that is no end of the wait")
			require.NoError(t, c.Close())
			c = coordinator(t, inTime(store), saga.Register(d))
		}
		time.Sleep(time.Hour)
		run, err := c.Run(t.Context(), "1")
		require.NoError(t, err)
		require.Equal(t, saga.Compensated, run.Status)
		var at []time.Duration
		for _, e := range run.History {
			if e.Type == saga.StepFailed {
				at = append(at, e.Time.Sub(run.Started))
			}
		}
		assert.Equal(t, []time.Duration{time.Minute, 2*time.Minute + time.Second}, at)
	})
}

// TestTimeOver: the time limit of a run counts while it waits for its keys, and while no
// coordinator is there.
func TestTimeOver(t *testing.T) {
	inBubble(t, func(t *testing.T, where string) {
		store := open(t, where)
		d := asks(waits)
		d.Timeout = time.Minute
		c := coordinator(t, inTime(store), saga.Register(d))
		free, done := make(chan struct{}), make(chan error, 1)
		go func() {
			done <- c.Do(context.Background(), func(claim *lockkeys.Claim) { claim.Exclusive(product("7")) }, func(context.Context) error {
				<-free
				return nil
			})
		}()
		synctest.Wait()
		start(t, c, store, "1", order{Product: "7"})
		start(t, c, store, "2", order{})
		time.Sleep(time.Minute - time.Millisecond)
		run, err := c.Run(t.Context(), "1")
		require.NoError(t, err)
		require.Equal(t, saga.Waiting, run.Status)
		time.Sleep(time.Second)
		run, err = c.Run(t.Context(), "1")
		require.NoError(t, err)
		assert.Equal(t, saga.Compensated, run.Status)
		assert.Equal(t, []string{"SagaStarted", "CompensationStarted", "SagaCompensated"}, types(run))
		run, err = c.Run(t.Context(), "2")
		require.NoError(t, err)
		assert.Equal(t, saga.Compensated, run.Status)
		assert.Equal(t, []string{"reserved", "released"}, effectsOf(t, store, "2"))
		close(free)
		require.NoError(t, <-done)

		start(t, c, store, "3", order{})
		time.Sleep(time.Second)
		require.NoError(t, c.Close())
		time.Sleep(2 * time.Minute)
		c = coordinator(t, inTime(store), saga.Register(d))
		time.Sleep(time.Second)
		run, err = c.Run(t.Context(), "3")
		require.NoError(t, err)
		assert.Equal(t, saga.Compensated, run.Status)
		assert.Equal(t, "not completed within 1m0s", run.Cause)
	})
}

// TestPivot: after it there is no way back, neither for a caller nor by the time limit.
func TestPivot(t *testing.T) {
	inBubble(t, func(t *testing.T, where string) {
		store := open(t, where)
		c := coordinator(t, inTime(store), saga.Register(saga.Definition[order]{Name: "d", Version: 1, Timeout: time.Minute, Steps: []saga.Step[order]{
			{Name: "reserve", DoTx: write("reserved"), UndoTx: write("released")},
			{Name: "pay", DoTx: write("paid"), Pivot: true},
			{Name: "ship", Timeout: time.Hour, Do: func(context.Context, saga.Call, *order) error {
				time.Sleep(10 * time.Minute)
				return nil
			}},
		}}))
		start(t, c, store, "1", order{})
		for range 9 { // before the limit, and after it
			time.Sleep(time.Minute / 2)
			require.ErrorIs(t, c.Cancel(t.Context(), "1", ""), saga.ErrPastPivot)
			require.ErrorIs(t, c.Undo(t.Context(), "1"), saga.ErrPastPivot)
		}
		time.Sleep(10 * time.Minute)
		run, err := c.Run(t.Context(), "1")
		require.NoError(t, err)
		assert.Equal(t, saga.Completed, run.Status)
		assert.Equal(t, []string{"reserved", "paid"}, effectsOf(t, store, "1"))
		assert.ErrorAs(t, c.Cancel(t.Context(), "1", ""), new(*saga.EndedError))
	})
}

// TestBulkhead: as many calls of a step are under way as it allows, while any wait, and no
// more.
func TestBulkhead(t *testing.T) {
	inBubble(t, func(t *testing.T, where string) {
		const runs, calls = 40, 3
		store := open(t, where)
		var now atomic.Int32
		c := coordinator(t, inTime(store), saga.Register(saga.Definition[order]{Name: "d", Version: 1, Steps: []saga.Step[order]{
			{Name: "call", MaxCalls: calls, Do: func(context.Context, saga.Call, *order) error {
				defer now.Add(-1)
				assert.LessOrEqual(t, now.Add(1), int32(calls))
				time.Sleep(time.Second)
				return nil
			}}}}))
		require.NoError(t, store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			for i := range runs {
				if err := c.Start(ctx, tx, fmt.Sprint(i), order{}); err != nil {
					return err
				}
			}
			return nil
		}))
		c.Notify()
		time.Sleep(time.Minute)
		var last time.Duration
		for i := range runs {
			run, err := c.Run(t.Context(), fmt.Sprint(i))
			require.NoError(t, err)
			require.Equal(t, saga.Completed, run.Status)
			last = max(last, run.Ended.Sub(run.Started))
		}
		assert.Equal(t, 14*time.Second, last, "40 calls, 3 at a time")
	})
}
