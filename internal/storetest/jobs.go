package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
)

func (h *holder) prune(before time.Time) int64 {
	h.t.Helper()
	n, err := h.term.Prune(h.ctx, before, time.Time{})
	h.ok(err)
	return n
}

var jobTests = []test{
	{promise: "an event that was processed has one", run: func(f *fixture) {
		f.acquire("a", "b")
		r := f.record(event("x", "a=1, b=1;end"))
		r.Attempts, r.Error = 4, "the third attempt: no answer"
		f.ok(f.term.Commit(f.ctx, r))
		require.Equal(f, r.State(), f.job("a=1"))
	}},
	{promise: "one that did not come has none", run: func(f *fixture) {
		f.noJob("a=1")
		f.hold(event("x", "a=1"))
		f.noJob("a=1")
	}},
	{promise: "attempts go on over a failure and then success", run: func(f *fixture) {
		f.acquire("a")
		x := event("x", "a=1")
		f.park(failure("p", at, x))
		require.Equal(f, ordering.StatusParked, f.job("a=1").Status)
		f.unpark("p")
		require.Equal(f, ordering.StatusParked, f.job("a=1").Status, "until it ran")
		r := f.record(x)
		r.Held, r.Attempts, r.Started, r.Ended = true, 4, at.Add(-time.Minute), at.Add(time.Hour)
		f.ok(f.term.Commit(f.ctx, r))
		require.Equal(f, r.State(), f.job("a=1"))
	}},
	{promise: "a time that is not known stays so", run: func(f *fixture) {
		f.acquire("a")
		r := f.record(event("x", "a=1"))
		r.Status, r.Attempts, r.Started = ordering.StatusDeadLettered, 0, time.Time{}
		f.ok(f.term.Commit(f.ctx, r))
		require.True(f, f.job("a=1").Started.IsZero())
		p := failure("p", at, event("y", "b=1"))
		p.Events[0].Attempts, p.Events[0].Started = 0, time.Time{}
		f.park(p)
		require.True(f, f.job("b=1").Started.IsZero())
		require.Equal(f, listed(p), f.parked())
	}},
	{promise: "those that ended before are pruned, streams keep their numbers", run: func(f *fixture) {
		f.acquire("a")
		for i, p := range []string{"a=1", "a=2", "a=4"} {
			r := f.record(event("", p))
			r.Ended = at.Add(time.Duration(i) * time.Second)
			f.ok(f.term.Commit(f.ctx, r))
		}
		require.EqualValues(f, 0, f.prune(at))
		require.EqualValues(f, 2, f.prune(at.Add(2*time.Second)))
		f.noJob("a=1")
		f.noJob("a=2")
		require.Equal(f, "a=4", f.job("a=4").Event)
		require.EqualValues(f, 1, f.prune(at.Add(time.Hour)))
		require.Equal(f, []state{{Last: 2, Done: spans(4)}}, f.states("a"))
		require.ErrorIs(f, f.try(event("", "a=1")), ordering.ErrDuplicate)
		require.ErrorIs(f, f.try(event("", "a=4")), ordering.ErrDuplicate)
	}},
	{promise: "those of parked failures stay", run: func(f *fixture) {
		f.park(failure("p", at, event("x", "a=1"), event("y", "b=1")))
		f.park(failure("q", at, event("z", "c=1")))
		f.unpark("q")
		require.EqualValues(f, 1, f.prune(at.Add(time.Hour)))
		f.noJob("c=1")
		require.Equal(f, ordering.StatusParked, f.job("a=1").Status)
		require.Equal(f, ordering.StatusParked, f.job("b=1").Status)
		f.unpark("p")
		require.EqualValues(f, 2, f.prune(at.Add(time.Hour)))
		require.Equal(f, []string{"x"}, f.held("a", 0, 9), "held all the same")
	}},
	{promise: "many are pruned", run: func(f *fixture) {
		f.acquire("a")
		for n := range uint64(300) {
			f.skip("a", n+1, n+1)
		}
		require.EqualValues(f, 300, f.prune(at.Add(time.Second)))
		require.EqualValues(f, 0, f.prune(at.Add(time.Second)))
	}},
	{promise: "they are there after a restart", durable: true, run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1")
		want := f.job("a=1")
		f.reopen()
		require.Equal(f, want, f.job("a=1"))
	}},
}
