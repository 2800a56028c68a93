package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
)

var lookTests = []test{
	{promise: "what is done, by whom, and who has the stream", run: func(f *fixture) {
		f.acquire("a", "b", "c")
		f.ok(f.try(event("x", "b=1, a=1")))
		f.ok(f.try(event("x", "a=3")))
		known := f.look("a=1, b=1, c=1, new=1")
		require.Equal(f, "x", known[0].Job.Event)
		require.Nil(f, known[1].Job, "it is kept under the first number")
		require.Equal(f, event("x", "b=1, a=1").Positions, known[0].Job.Positions)
		require.True(f, known[0].Job.IsOf(event("x", "a=1, b=1")))
		require.Equal(f, []bool{true, true, false, false}, []bool{known[0].Done, known[1].Done, known[2].Done, known[3].Done})
		require.Equal(f, f.fence("c"), known[2].Fence)
		require.Nil(f, known[2].Job)
		require.Nil(f, known[3].Job)
		require.True(f, f.look("a=3")[0].Done)
		require.Len(f, f.job("a=3").Positions, 1)
		require.False(f, f.look("a=2")[0].Done)
		require.False(f, f.look("a=4")[0].Done)
	}},
	{promise: "of no numbers, or of those at the end of the world", run: func(f *fixture) {
		states, err := f.term.Look(f.ctx, nil)
		f.ok(err)
		require.Empty(f, states)
		f.acquire("a")
		last := event("", "a=100000000000000;epoch=65535;end")
		require.False(f, f.lookAt(last.Positions)[0].Done)
		f.ok(f.try(last))
		require.True(f, f.lookAt(last.Positions)[0].Done)
		require.Equal(f, last.Positions, f.jobAt(last.Positions).Positions)
		last.Positions[0].Number++
		f.lookAt(last.Positions)
	}},
	{promise: "twice the same number", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1")
		p := event("", "a=1").Positions[0]
		known := f.lookAt([]ordering.Position{p, p})
		require.Equal(f, known[0], known[1])
		require.True(f, known[1].Done)
	}},
	{promise: "a failure neither hides nor replaces what made a number done", run: func(f *fixture) {
		f.acquire("a", "b", "c")
		f.park(failure("p", at, event("fails", "b=1, c=1"), event("fails too", "a=1, c=1")))
		require.Equal(f, ordering.StatusParked, f.job("b=1").Status)
		f.unpark("p")
		f.ok(f.try(event("x", "a=1, b=1")))
		require.Equal(f, "x", f.job("a=1").Event)
		f.noJob("b=1")
		f.park(failure("q", at, event("fails", "b=1, c=1"), event("x", "a=1, b=1")))
		require.Equal(f, ordering.StatusApplied, f.job("a=1").Status)
		f.noJob("b=1")
	}},
	{promise: "a number is done when its job state was pruned", run: func(f *fixture) {
		f.acquire("a", "b")
		f.ok(f.try(event("x", "a=1, b=1")))
		f.skip("a", 2, 3)
		require.EqualValues(f, 2, f.prune(at.Add(2*1e9)))
		f.ok(f.try(event("y", "a=4, b=2")))
		for _, state := range f.look("a=1, b=1, a2=1")[:2] {
			require.Equal(f, ordering.NumberState{Done: true, Pruned: true, Fence: state.Fence, Last: state.Last}, state)
		}
		require.True(f, f.look("a=3")[0].Done)
		require.True(f, f.look("a=3")[0].Pruned)
		require.False(f, f.look("a=4")[0].Pruned)
		require.False(f, f.look("b=2")[0].Pruned, "though nothing is kept under it")
		f.noJob("a=2, b=2")
	}},
	{promise: "of an event that is given up in part", run: func(f *fixture) {
		f.acquire("a", "b")
		f.ok(f.try(event("x", "a=1")))
		y := event("y", "a=1, b=1")
		f.hold(y)
		r := f.record(y)
		r.Event = event("y", "b=1")
		r.Fences, r.Status, r.Held = r.Fences[1:], ordering.StatusDeadLettered, true
		f.ok(f.term.Commit(f.ctx, r))
		require.Equal(f, "x", f.job("a=1").Event)
		require.Equal(f, "y", f.job("b=1").Event)
		require.Equal(f, y.Positions, f.job("b=1").Positions)
		require.Empty(f, f.backlog())
	}},
}
