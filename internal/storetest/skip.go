package storetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

var skipTests = []test{
	{promise: "the next numbers", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1")
		f.skip("a", 2, 4)
		require.Equal(f, []state{{Last: 4}}, f.states("a"))
		require.ErrorIs(f, f.try(event("late", "a=3")), ordering.ErrDuplicate)
		f.commit("a=5")
	}},
	{promise: "one number", run: func(f *fixture) {
		f.acquire("a")
		f.skip("a", 1, 1)
		require.Equal(f, []state{{Last: 1}}, f.states("a"))
	}},
	{promise: "a range with numbers that are done", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1", "a=3", "a=5", "a=7", "a=9")
		f.skip("a", 1, 6)
		require.Equal(f, []state{{Last: 7, Done: spans(9)}}, f.states("a"))
		require.Equal(f, ordering.StatusApplied, f.job("a=3").Status, "stays")
		for _, p := range []string{"a=2", "a=4", "a=6"} {
			require.Equal(f, ordering.StatusSkipped, f.job(p).Status)
			require.Equal(f, p+"-"+p[2:], f.job(p).Event, "of those that it made done")
		}
	}},
	{promise: "numbers above a gap", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1", "a=5")
		f.skip("a", 4, 7)
		require.Equal(f, []state{{Last: 1, Done: spans(4, 5, 6, 7)}}, f.states("a"))
		f.skip("a", 2, 2)
		f.commit("a=3")
		require.Equal(f, []state{{Last: 7}}, f.states("a"))
	}},
	{promise: "again, or numbers that are all done, changes none", run: func(f *fixture) {
		f.acquire("a")
		f.skip("a", 1, 3)
		f.skip("a", 1, 3)
		f.skip("a", 2, 2)
		f.commit("a=5")
		f.skip("a", 5, 5)
		require.Equal(f, []state{{Last: 3, Done: spans(5)}}, f.states("a"))
	}},
	{promise: "very many of the next numbers", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1")
		f.skip("a", 2, 1e15)
		require.Equal(f, []state{{Last: 1e15}}, f.states("a"))
		require.ErrorIs(f, f.try(event("", "a=77")), ordering.ErrDuplicate)
	}},
	{promise: "very many numbers above a gap", run: func(f *fixture) {
		f.acquire("a")
		f.skip("a", 3, 1e15)
		require.Equal(f, []state{{Done: ordering.Spans{{From: 3, To: 1e15}}}}, f.states("a"))
		f.commit("a=2")
		f.commit("a=1")
		require.Equal(f, []state{{Last: 1e15}}, f.states("a"))
	}},
	{promise: "the range has a job state", run: func(f *fixture) {
		f.acquire("a")
		s := ordering.Skipped{Stream: lockkeys.Must("a"), From: 1, To: 3, Fence: f.fences[lockkeys.Must("a")], Reason: "never sent", Time: at}
		f.ok(f.term.Skip(f.ctx, s))
		require.Equal(f, s.JobState(), f.job("a=1"))
		require.Equal(f, s.JobState(), f.job("a=3"))
		f.noJob("a=4")
		n, err := f.term.Prune(f.ctx, at.Add(time.Second), time.Time{})
		f.ok(err)
		require.EqualValues(f, 1, n)
		require.Equal(f, []state{{Last: 3}}, f.states("a"))
	}},
	{promise: "a range that cannot be is refused", run: func(f *fixture) {
		f.acquire("a")
		require.Error(f, f.trySkip("a", 0, 3))
		require.Error(f, f.trySkip("a", 3, 2))
		require.Error(f, f.trySkip("a", 3, ordering.MaxPlace+1))
		require.Equal(f, []state{{}}, f.states("a"))
	}},
	{promise: "with a cancelled context nothing", run: func(f *fixture) {
		f.acquire("a")
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		s := ordering.Skipped{Stream: lockkeys.Must("a"), From: 1, To: 3, Fence: f.fences[lockkeys.Must("a")], Time: at}
		require.ErrorIs(f, f.term.Skip(ctx, s), context.Canceled)
		require.Equal(f, []state{{}}, f.states("a"))
	}},
}
