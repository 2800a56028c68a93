package storetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// calls are all methods that have a context.
func (h *holder) calls(ctx context.Context) map[string]error {
	key := lockkeys.Must("a")
	errs := map[string]error{}
	_, errs["Begin"] = h.store.Begin(ctx, ordering.Consumer{Partition: "of another"})
	errs["End"] = h.term.End(ctx)
	_, errs["LookCommands"] = h.term.LookCommands(ctx, []string{"x"})
	_, errs["Mark"] = h.term.Mark(ctx, event("x", "a=1"), 3)
	errs["Unmark"] = h.term.Unmark(ctx, event("x", "a=1"))
	_, errs["Decisions"] = h.term.Decisions(ctx, at, 1)
	errs["command"] = h.term.Commit(ctx, h.record(&ordering.Event{ID: "x"}))
	_, errs["Acquire"] = h.term.Acquire(ctx, []lockkeys.Key{key})
	errs["Commit"] = h.term.Commit(ctx, h.record(event("x", "a=1")))
	errs["Skip"] = h.term.Skip(ctx, ordering.Skipped{Stream: key, From: 1, To: 1, Fence: h.fences[key], Time: at})
	errs["Hold"] = h.term.Hold(ctx, []*ordering.Event{event("x", "a=1")}, h.fences)
	_, errs["Held"] = h.term.Held(ctx, key, 1, 1, 1)
	errs["Forget"] = h.term.Forget(ctx, event("x", "a=1"), h.fences)
	errs["Park"] = h.term.Park(ctx, []ordering.Parking{failure("p", at, event("x", "a=1"))}, h.fences)
	errs["Unpark"] = h.term.Unpark(ctx, []string{"p"}, h.fences)
	_, errs["Parked"] = h.term.Parked(ctx)
	_, errs["Backlog"] = h.term.Backlog(ctx)
	_, errs["Reached"] = h.term.Reached(ctx, key)
	_, errs["Look"] = h.term.Look(ctx, event("x", "a=1").Positions)
	_, errs["Prune"] = h.term.Prune(ctx, at, time.Time{})
	return errs
}

var lifeTests = []test{
	{promise: "after Close every call says so", run: func(f *fixture) {
		f.acquire("a")
		f.ok(f.store.Close())
		for name, err := range f.calls(f.ctx) {
			require.ErrorIs(f, err, ordering.ErrStoreClosed, name)
		}
		f.ok(f.store.Close())
	}},
	{promise: "a context that has ended", run: func(f *fixture) {
		f.acquire("a")
		cancelled, cancel := context.WithCancel(f.ctx)
		cancel()
		for name, err := range f.calls(cancelled) {
			require.ErrorIs(f, err, context.Canceled, name)
		}
		late, cancel := context.WithDeadline(f.ctx, time.Unix(0, 0))
		defer cancel()
		for name, err := range f.calls(late) {
			require.ErrorIs(f, err, context.DeadlineExceeded, name)
		}
		require.Equal(f, []state{{}}, f.states("a"))
		require.Empty(f, f.parked())
		require.Empty(f, f.backlog())
		f.noJob("a=1")
		f.commit("a=1")
	}},
	{promise: "numbers are there after a restart", durable: true, run: func(f *fixture) {
		f.acquire("a", "b", "c")
		f.commit("a=1, b=1", "a=4", "b=2;end")
		f.skip("c", 1, 5)
		f.reopen()
		require.Equal(f, []state{{Last: 1, Done: spans(4)}, {Last: 2, Ended: 2}, {Last: 5}, {}}, f.states("a", "b", "c", "d"))
		require.ErrorIs(f, f.try(event("", "a=1")), ordering.ErrDuplicate)
		f.commit("a=2", "a=3")
		f.reopen()
		require.Equal(f, []state{{Last: 4}}, f.states("a"))
	}},
	{promise: "what a store writes another sees", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1")
		f.park(failure("p", at, event("x", "b=1")))
		f.hold(event("y", "c=1"))
		next := f.another()
		require.Equal(f, "a=1", next.job("a=1").Event)
		require.Len(f, next.parked(), 1)
		require.Equal(f, []string{"c"}, next.backlog())
		require.Equal(f, []state{{Last: 1}, {HeldAt: 1, Parked: "p"}}, next.states("a", "b"))
	}},
}
