package dispatcher_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// accesses keeps what Config.Touched is told.
type accesses struct {
	mu  sync.Mutex
	all []dispatcher.Access
}

func (a *accesses) touched(_ context.Context, one dispatcher.Access) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, one)
}

// TestTouch: each access is told of, with the message, its claim and the caller.
func TestTouch(t *testing.T) {
	var seen accesses
	var line int
	d := start(t, config{Touched: seen.touched, Name: func(j *job) string { return "the " + j.name }})
	require.NoError(t, d.Do(t.Context(), newJob("job", func(ctx context.Context) error {
		within := context.WithValue(ctx, errBoom, 1)
		_, _, line, _ = runtime.Caller(0)
		dispatcher.Touch(within, key("a/1"), lockkeys.Exclusive)
		dispatcher.Touch(ctx, key("b"), lockkeys.Exclusive)
		dispatcher.TouchData(ctx, "total", lockkeys.Shared)
		if err := dispatcher.Release(ctx, key("a")); err != nil {
			return err
		}
		dispatcher.Touch(ctx, key("a"), lockkeys.Shared)
		return nil
	}, "a", "~b")))
	require.Len(t, seen.all, 4)
	for i, want := range []struct {
		resource string
		claim    []string
		held     bool
	}{
		{"a/1", []string{"a", "~b"}, true}, {"b", []string{"a", "~b"}, false},
		{`"total"`, []string{"a", "~b"}, true}, {"a", []string{"~b"}, false},
	} {
		a := seen.all[i]
		require.Equal(t, want.resource, a.Resource())
		require.Equal(t, requests(want.claim...), a.Claim)
		require.Equal(t, "the job", a.Name)
		require.EqualValues(t, 1, a.ID)
		require.Equal(t, 1, a.Attempt)
		if i < 3 {
			require.Regexp(t, fmt.Sprintf(`/touch_test\.go:%d$`, line+1+i), a.Caller)
		}
		if want.held {
			require.NoError(t, a.Err)
			continue
		}
		var err *dispatcher.NotHeldError
		require.ErrorAs(t, a.Err, &err)
		require.Equal(t, a.Caller, err.Caller)
		require.ErrorContains(t, err, want.resource)
		require.ErrorContains(t, err, ", touched at "+a.Caller+", is not covered by the message's claim")
	}
	require.Equal(t, `"total" read at `+seen.all[2].Caller+` by message 1, attempt 1: the job [a b (shared)]`, seen.all[2].String())
	require.Contains(t, seen.all[1].String(), "b written at ")
	dispatcher.Touch(t.Context(), key("c"), lockkeys.Exclusive) // no handler: nothing
	require.Len(t, seen.all, 4)
}

// TestTouchElsewhere: in batches, chains, held messages, and when the attempt is over.
func TestTouchElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen accesses
		last := func() dispatcher.Access { return seen.all[len(seen.all)-1] }
		b := start(t, config{Touched: seen.touched, Workers: 1, BatchHandler: func(ctx context.Context, _ []*job) []error {
			dispatcher.Touch(ctx, key("b"), lockkeys.Exclusive)
			return nil
		}})
		accepted, err := b.SubmitBatch(t.Context(), []*job{newJob("", nil, "a"), newJob("", nil, "a", "b")})
		require.Equal(t, 2, accepted)
		require.NoError(t, err)
		drain(t, b)
		if last().ID == 1 { // both in one batch
			require.Equal(t, requests("a", "b"), last().Claim)
		}
		require.NoError(t, last().Err)

		d := start(t, config{Touched: seen.touched})
		holder, holds := holding("", "a")
		submit(t, d, holder)
		h := <-holds
		synctest.Wait()
		dispatcher.Touch(h.ctx, key("a"), lockkeys.Exclusive)
		require.NoError(t, last().Err)
		claim, err := dispatcher.ClaimOf(h.ctx)
		require.NoError(t, err)
		require.Equal(t, requests("a"), claim)
		h.finish(nil)
		drain(t, d)
		dispatcher.Touch(h.ctx, key("a"), lockkeys.Exclusive)
		require.ErrorIs(t, last().Err, dispatcher.ErrNoHandler)
		require.Empty(t, last().Claim)
		_, err = dispatcher.ClaimOf(h.ctx)
		require.ErrorIs(t, err, dispatcher.ErrNoHandler)
		_, err = dispatcher.ClaimOf(t.Context())
		require.ErrorIs(t, err, dispatcher.ErrNoHandler)
	})
}

// TestTouchStrict: with Strict the message fails, and without it nothing happens.
func TestTouchStrict(t *testing.T) {
	for _, strict := range []bool{false, true} {
		d := start(t, config{Strict: strict, MaxAttempts: 3})
		err := d.Do(t.Context(), newJob("", func(ctx context.Context) error {
			dispatcher.Touch(ctx, key("a"), lockkeys.Exclusive)
			dispatcher.TouchData(ctx, "total", lockkeys.Exclusive)
			dispatcher.Touch(ctx, key("b"), lockkeys.Shared)
			return nil
		}, "a"))
		if !strict {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, dispatcher.ErrNotHeld)
		require.ErrorContains(t, err, "touch_test.go:")
		require.ErrorContains(t, err, "add claim.Shared of b")
	}
}

// TestTouchCostsNothing: unless it is switched on, it allocates nothing.
func TestTouchCostsNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	d := start(t, config{})
	k := key("a/1")
	require.NoError(t, d.Do(t.Context(), newJob("", func(ctx context.Context) error {
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			dispatcher.Touch(ctx, k, lockkeys.Exclusive)
			dispatcher.TouchData(ctx, "total", lockkeys.Exclusive)
		}))
		return nil
	}, "a")))
}
