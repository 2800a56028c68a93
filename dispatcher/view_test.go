package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/lockkeys"
)

// A transfer is tried again and again, a deposit and a check of the whole client wait for
// it, and another client's message is parked with two behind it.
func TestView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := dispatcher.New(dispatcher.Config[*job]{
			Keys: jobKeys, Handler: runJob, Name: func(j *job) string { return j.name }, MaxAttempts: 5,
			Backoff: dispatcher.Backoff{Initial: 4 * time.Second, Max: 4 * time.Second, Jitter: -1}, Failure: dispatcher.Park,
		})
		require.NoError(t, err)
		submit := func(name string, run func(context.Context) error, keys ...string) {
			require.NoError(t, d.Submit(t.Context(), newJob(name, run, keys...)))
			synctest.Wait()
		}
		nothing := func(context.Context) error { return nil }
		submit("transfer 812", func(context.Context) error { return errors.New("timeout") }, "client/42/account/7")
		time.Sleep(time.Second)
		submit("deposit 813", nothing, "client/42/account/7")
		submit("check 814", nothing, "client/42")
		submit("broken", func(context.Context) error { return dispatcher.Permanent(errors.New("no such account")) }, "client/1")
		submit("after it", nothing, "client/1")
		submit("after both", nothing, "client/1", "client/42/account/7")
		begun := time.Now()

		look := func(q view.Query) view.View {
			v, err := d.View(t.Context(), q)
			require.NoError(t, err)
			return v
		}
		names := func(v view.View) (list []string) {
			for _, m := range v.Messages {
				list = append(list, m.Name)
			}
			return list
		}
		v := look(view.Query{})
		require.Equal(t, []string{"transfer 812", "deposit 813", "check 814", "broken", "after it", "after both"}, names(v))
		require.Len(t, v.Problems, 1)
		require.Contains(t, v.Problems[0], "1 parked")
		transfer, deposit, check, broken, after := v.Messages[0], v.Messages[1], v.Messages[2], v.Messages[3], v.Messages[4]
		require.Equal(t, "backoff", transfer.State)
		require.Equal(t, 1, transfer.Attempts)
		require.Equal(t, 5, transfer.Most)
		require.Equal(t, "timeout", transfer.Err)
		require.Equal(t, 3*time.Second, transfer.Next.Sub(begun))
		require.Equal(t, "waiting", deposit.State)
		require.Equal(t, transfer.ID, deposit.Blocker)
		require.Equal(t, "client/42/account/7", deposit.Blocks.Key.String())
		require.Equal(t, begun, deposit.Since)
		require.Equal(t, "exclusive", check.Claim[0].Mode)
		require.Equal(t, []string{"resume", "skip", "drop"}, broken.Actions)
		require.Equal(t, 2, broken.Behind)
		require.True(t, after.Stalled)
		require.Empty(t, after.Actions)

		t.Log("no more than asked for, parked ones first")
		v = look(view.Query{Limit: 2})
		require.Equal(t, []string{"transfer 812", "deposit 813", "broken"}, names(v))
		require.Equal(t, 3, v.Hidden)

		t.Log("a key, and what it waits for")
		require.Equal(t, []string{"broken", "after it", "after both"}, names(look(view.Query{Key: lockkeys.Must("client", "1", "account", "3")})))
		v = look(view.Query{ID: check.ID})
		require.Equal(t, []string{"transfer 812", "check 814"}, names(v), "one of those it waits for")
		require.Equal(t, 3, v.Messages[0].Behind)
		require.Empty(t, look(view.Query{ID: 99}).Messages)

		t.Log("an operator decides")
		act := func(name, target string) error { return d.Act(t.Context(), view.Action{Name: name, Target: target}) }
		require.ErrorIs(t, act("burn", broken.Target), view.ErrAction)
		require.ErrorIs(t, act("skip", "client"), view.ErrAction)
		other := strings.Replace(broken.Target, fmt.Sprint("/", broken.ID), fmt.Sprint("/", transfer.ID), 1)
		require.ErrorIs(t, act("skip", other), dispatcher.ErrNotParked)
		require.ErrorContains(t, act("skip", fmt.Sprint("17/", broken.ID, "/1")), "an earlier process", "a page that is older than a restart")
		require.NoError(t, act("skip", broken.Target))
		synctest.Wait()
		require.Equal(t, []string{"transfer 812", "deposit 813", "check 814", "after both"}, names(look(view.Query{})))

		_, err = d.Shutdown(t.Context())
		require.NoError(t, err)
		require.True(t, look(view.Query{}).Stopped)
	})
}

// TestViewParkedFirst: what an operator must decide about is among what a view is limited to.
func TestViewParkedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Failure: dispatcher.Park})
		fails := func(context.Context) error { return dispatcher.Permanent(errBoom) }
		submit(t, d, newJob("slow", takes(time.Hour, nil), "a"))
		for range 10 {
			submit(t, d, newJob("waits", nil, "a"))
		}
		submit(t, d, newJob("broken", fails, "b"), newJob("behind", nil, "b"), newJob("broken too", fails, "c"))
		synctest.Wait()
		v, err := d.View(t.Context(), view.Query{Limit: 3})
		require.NoError(t, err)
		var ids []uint64
		for _, m := range v.Messages {
			ids = append(ids, m.ID)
		}
		require.Equal(t, []uint64{1, 2, 12, 14}, ids)
		require.Equal(t, 10, v.Hidden)
		require.Len(t, d.Snapshot().Messages, 14)
	})
}

// TestActOnWhatWasSeen: a page shows a failure, and another operator resumes the message,
// which fails in another way: the first one has decided nothing about that.
func TestActOnWhatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		var results []error
		d := start(t, config{Failure: dispatcher.Park, MaxAttempts: 1})
		require.NoError(t, d.Submit(t.Context(), newJob("m", func(context.Context) error {
			attempts++
			return fmt.Errorf("failure %d", attempts)
		}, "k"), dispatcher.OnDone(func(_ *job, err error) { results = append(results, err) })))
		synctest.Wait()
		look := func() view.Message {
			v, err := d.View(t.Context(), view.Query{})
			require.NoError(t, err)
			require.Len(t, v.Messages, 1)
			return v.Messages[0]
		}
		act := func(name string, m view.Message) error {
			return d.Act(t.Context(), view.Action{Name: name, Target: m.Target})
		}
		first := look()
		require.Equal(t, "failure 1", first.Err)
		require.NoError(t, act("resume", first))
		synctest.Wait()
		second := look()
		require.Equal(t, "failure 2", second.Err)
		for _, name := range second.Actions {
			require.ErrorIs(t, act(name, first), dispatcher.ErrNotParked)
			require.ErrorContains(t, act(name, first), "has failed again")
		}
		require.Equal(t, 2, attempts)
		require.Empty(t, results)
		require.NoError(t, act("skip", second))
		require.Len(t, results, 1)
		require.ErrorIs(t, results[0], dispatcher.ErrSkipped)
		require.ErrorContains(t, results[0], "failure 2")
	})
}

// unreadable is an error of which a nil pointer has no text.
type unreadable struct{ text string }

func (e *unreadable) Error() string { return e.text }

// TestViewOfUnreadableErrors: wherever an error of an attempt comes from, it can be shown.
func TestViewOfUnreadableErrors(t *testing.T) {
	var none *unreadable
	for name, cfg := range map[string]config{
		"Handler":      {Handler: func(context.Context, *job) error { return none }},
		"BatchHandler": {BatchHandler: func(_ context.Context, ms []*job) []error { return dispatcher.FailAll(none, len(ms)) }},
		"Hold": {Handler: func(ctx context.Context, _ *job) error {
			finish, err := dispatcher.Hold(ctx)
			time.AfterFunc(time.Second, func() { finish(none) })
			return err
		}},
		"Hold, finished at once": {Handler: func(ctx context.Context, _ *job) error {
			finish, err := dispatcher.Hold(ctx)
			finish(none)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg.MaxAttempts, cfg.Backoff.Initial = 2, time.Hour
				d := start(t, cfg)
				submit(t, d, newJob("", nil, "a"))
				time.Sleep(time.Minute)
				require.Equal(t, 1, d.Stats().Backoff)
				v, err := d.View(t.Context(), view.Query{})
				require.NoError(t, err)
				require.Contains(t, v.Messages[0].Err, "nil pointer")
			})
		})
	}
}
