package saga_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/replay/saga"
)

// A run is canceled while a call is under way, and the answer to that is lost at each place:
// what the call has done is undone all the same if the run has turned back.
func TestTurnedBackInDoubt(t *testing.T) {
	s, err := server()
	require.NoError(t, err)
	url := s.Database(t)
	plain := open(t, url)
	link, through := s.Link(t, url)
	cfg := config(open(t, through))
	cfg.Poll = time.Hour
	inside, goOn := make(chan struct{}), make(chan struct{})
	here := func(what string) func(ctx context.Context, call saga.Call, o *order) error {
		return func(_ context.Context, call saga.Call, o *order) error {
			if !call.Undo {
				inside <- struct{}{}
				<-goOn
			}
			return plain.Write(context.Background(), func(ctx context.Context, tx *sql.Tx) error { return write(what)(ctx, tx, call, o) })
		}
	}
	c := coordinator(t, cfg, saga.Register(saga.Definition[order]{Name: "d", Version: 1, Steps: []saga.Step[order]{
		{Name: "pay", Do: here("paid"), Undo: here("refunded")},
		{Name: "ship", DoTx: write("shipped")},
	}}))
	reader, doubts := saga.NewReader(plain.DB(), ""), 0
	for n, whole := 0, false; !whole && n < 400; n++ {
		id := fmt.Sprint(n)
		require.NoError(t, plain.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return c.Start(ctx, tx, id, order{}) }))
		c.Notify()
		<-inside
		arrive := link.DelayAfter(n)
		canceled := c.Cancel(t.Context(), id, "changed mind")
		whole = link.Disarm()
		arrive()
		require.Eventually(t, func() bool { // what was under way has arrived
			var open int
			err := plain.DB().QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL`).Scan(&open)
			return err == nil && open == 0
		}, waitAtMost, time.Millisecond)
		before, err := reader.Run(t.Context(), id)
		require.NoError(t, err)
		if canceled != nil && before.Status == saga.Compensating {
			doubts++
		}
		goOn <- struct{}{}
		var run saga.Run
		require.Eventually(t, func() bool {
			run, err = reader.Run(context.Background(), id)
			return err != nil || run.Status.Ended()
		}, waitAtMost, time.Millisecond, "place %d", n)
		require.NoError(t, err)
		want := map[saga.Status][]string{saga.Completed: {"paid", "shipped"}, saga.Compensated: {"paid", "refunded"}}[run.Status]
		require.Equal(t, want, effectsOf(t, plain, id), "place %d, %s", n, run.Status)
	}
	assert.Positive(t, doubts, "no cancellation was in doubt")
}

// rate is a state that JSON cannot keep with some values.
type rate struct {
	Value  float64
	Raw    json.RawMessage
	Undone bool
}

// A call that leaves a state that cannot be kept has been made all the same: it is undone,
// and was not refused.
func TestAStateThatCannotBeKept(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		spoil := func(s *rate) { s.Value = math.NaN() }
		var undone atomic.Int32
		undo := func(_ context.Context, _ saga.Call, s *rate) error { undone.Add(1); s.Undone = true; return nil }
		c := coordinator(t, config(store), saga.Register(saga.Definition[rate]{Name: "d", Version: 1, Steps: []saga.Step[rate]{
			{Name: "pay", Do: func(_ context.Context, _ saga.Call, s *rate) error { spoil(s); return nil }, Undo: undo}}}))
		start(t, c, store, "1", rate{})
		run := ended(t, c, "1")
		assert.Equal(t, saga.Compensated, run.Status)
		assert.Contains(t, run.Cause, "NaN")
		assert.EqualValues(t, 1, undone.Load())

		t.Log("of the database that takes no text but UTF-8")
		spoil = func(s *rate) { s.Raw = json.RawMessage("\"\xff\"") }
		start(t, c, store, "2", rate{})
		run = ended(t, c, "2")
		assert.Contains(t, run.Cause, "its JSON is not UTF-8")
		assert.EqualValues(t, 2, undone.Load())
		require.NoError(t, c.Close())

		t.Log("nor does a reply refuse anything by that")
		c = coordinator(t, config(store), saga.Register(saga.Definition[rate]{Name: "d", Version: 2, Steps: []saga.Step[rate]{
			{Name: "pay", Do: func(context.Context, saga.Call, *rate) error { return saga.Wait }, Undo: undo,
				OnReply: func(_ context.Context, _ *sql.Tx, _ saga.Call, s *rate, body []byte) error {
					return errors.Join(json.Unmarshal(body, &s.Raw), func() error {
						if string(body) == "0" {
							s.Value = math.Inf(1)
						}
						return nil
					}())
				}}}}))
		start(t, c, store, "3", rate{})
		until(t, c, "3", func(r saga.Run) bool { return r.Steps[0].Status == saga.Awaiting })
		require.ErrorContains(t, c.Reply(t.Context(), "3", "pay", []byte("0")), "unsupported value")
		require.NoError(t, c.Reply(t.Context(), "3", "pay", []byte("1")))
		assert.Equal(t, saga.Completed, ended(t, c, "3").Status)
	})
}

// Keys that cannot be derived any more say nothing of a call that was under way when the
// process ended: an operator must decide, since nobody can undo it without its keys.
func TestKeysFailAfterARestart(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	inside := make(chan struct{})
	var fails, undone atomic.Bool
	d := saga.Register(saga.Definition[order]{Name: "d", Version: 1, Steps: []saga.Step[order]{
		{Name: "print", Under: []lockkeys.Key{lockkeys.Must("printer")},
			Keys: func(_ *order, claim *lockkeys.Claim) error {
				if fails.Load() {
					return errAway
				}
				claim.Exclusive(lockkeys.Must("printer"))
				return nil
			},
			Do: func(ctx context.Context, _ saga.Call, _ *order) error {
				close(inside)
				<-ctx.Done()
				return ctx.Err()
			},
			Undo: func(context.Context, saga.Call, *order) error { undone.Store(true); return nil }},
	}})
	c, err := saga.New(t.Context(), config(store), d)
	require.NoError(t, err)
	start(t, c, store, "1", order{})
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = c.Shutdown(ctx) // the call is cut off
	require.NoError(t, c.Close())
	fails.Store(true)
	c = coordinator(t, config(store), d)
	run := until(t, c, "1", func(r saga.Run) bool { return r.Status == saga.Parked || r.Status.Ended() })
	require.Equal(t, saga.Parked, run.Status)
	require.Equal(t, saga.Undoing, run.Steps[0].Status)
	fails.Store(false)
	require.NoError(t, c.Resume(asAnn, "1"))
	assert.Equal(t, saga.Compensated, ended(t, c, "1").Status)
	assert.True(t, undone.Load())
}

// A run whose time is over begins nothing any more, also if that could not be noticed before:
// since nobody was there, or since a transaction of its own lasted longer.
func TestTimeOverUnnoticed(t *testing.T) {
	inBubble(t, func(t *testing.T, where string) {
		store := open(t, where)
		reserve := write("reserved")
		d := saga.Definition[order]{Name: "d", Version: 1, Timeout: 10 * time.Second, Steps: []saga.Step[order]{
			{Name: "reserve", Timeout: time.Hour, UndoTx: write("released"), DoTx: func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error {
				time.Sleep(20 * time.Second)
				return reserve(ctx, tx, call, o)
			}},
			{Name: "pay", DoTx: write("paid"), Pivot: true},
		}}
		check := func(c *saga.Coordinator, id string, effects ...string) {
			t.Helper()
			time.Sleep(3 * time.Minute)
			run, err := c.Run(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, saga.Compensated, run.Status)
			assert.Equal(t, "not completed within 10s", run.Cause)
			assert.Equal(t, effects, effectsOf(t, store, id))
		}
		c := coordinator(t, inTime(store), saga.Register(d))
		start(t, c, store, "slow", order{})
		check(c, "slow", "reserved", "released")
		require.NoError(t, store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return c.Start(ctx, tx, "alone", order{}) }))
		require.NoError(t, c.Close())
		time.Sleep(2 * time.Minute)
		c = coordinator(t, inTime(store), saga.Register(d))
		check(c, "alone")
	})
}

// A run that cannot be taken up at first is tried again, and does not hold up others.
func TestARunThatCannotBeTakenUpYet(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		first := checkout(write("shipped"))
		first.Steps[2] = saga.Step[order]{Name: "ship", Do: waits}
		cfg := config(store)
		cfg.MaxRuns = 1
		c := coordinator(t, cfg, saga.Register(first))
		for _, id := range []string{"a", "b", "c"} { // b and c do not fit
			start(t, c, store, id, order{})
		}
		until(t, c, "a", func(r saga.Run) bool { return r.Steps[2].Status == saga.Awaiting })
		require.NoError(t, c.Close())
		second := first
		second.Version = 2
		var fails atomic.Bool
		second.Upgrade = func(_ int, state json.RawMessage) (o order, err error) {
			if fails.Load() {
				return o, errAway
			}
			return o, json.Unmarshal(state, &o)
		}
		cfg.Poll = time.Millisecond
		c = coordinator(t, cfg, saga.Register(second))
		fails.Store(true)
		require.ErrorIs(t, c.Cancel(t.Context(), "c", "changed mind"), errAway)
		require.NoError(t, c.Reply(t.Context(), "a", "ship", nil))
		assert.Equal(t, saga.Completed, ended(t, c, "a").Status)
		start(t, c, store, "d", order{})
		until(t, c, "d", func(r saga.Run) bool { return r.Steps[2].Status == saga.Awaiting })
		fails.Store(false)
		for _, id := range []string{"b", "c"} {
			until(t, c, id, func(r saga.Run) bool { return r.Steps[2].Status == saga.Awaiting })
		}
	})
}
