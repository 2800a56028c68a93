package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

var fencingTests = []test{
	{promise: "the new holder sees the state, and the old one writes no more", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1", "a=3")
		next := f.another()
		require.Equal(f, []state{{Last: 1, Done: spans(3)}}, next.states("a"))

		require.ErrorIs(f, f.try(event("late", "a=2")), ordering.ErrFenced)
		require.ErrorIs(f, f.trySkip("a", 2, 2), ordering.ErrFenced)
		next.noJob("a=2")
		next.commit("a=2")
		require.Equal(f, []state{{Last: 3}}, next.states("a"))
	}},
	{promise: "the old holder neither holds, parks nor resumes", run: func(f *fixture) {
		f.acquire("a")
		next := f.another()
		next.acquire("a")
		parking := failure("p", at, event("x", "a=2"))
		next.park(parking)

		require.ErrorIs(f, f.tryHold(event("late", "a=3")), ordering.ErrFenced)
		require.ErrorIs(f, f.tryPark(failure("q", at, event("late", "a=1"))), ordering.ErrFenced)
		require.ErrorIs(f, f.tryUnpark("p"), ordering.ErrFenced)
		next.noJob("a=1")
		require.ErrorIs(f, f.term.Forget(f.ctx, event("x", "a=2"), f.fences), ordering.ErrFenced)
		require.Equal(f, listed(parking), next.parked())
		require.Equal(f, []string{"x"}, next.held("a", 0, 9))

		next.hold(event("y", "a=3"))
		next.unpark("p")
		require.ErrorIs(f, f.tryUnpark("p"), ordering.ErrFenced, "also when there is no such parking any more")
		next.unpark("p")
		require.Empty(f, next.parked())
		require.Equal(f, []state{{HeldAt: 2}}, next.states("a"))
	}},
	{promise: "to lose one stream is to hold nothing, and to park none", run: func(f *fixture) {
		f.acquire("a", "b", "c")
		next := f.beside()
		next.acquire("b")
		require.ErrorIs(f, f.tryHold(event("x", "a=1"), event("y", "b=1, c=1")), ordering.ErrFenced)
		require.ErrorIs(f, f.tryPark(failure("p", at, event("z", "a=1, b=1"))), ordering.ErrFenced)
		require.Empty(f, f.parked())
		require.Empty(f, f.backlog())
		f.noJob("a=1, b=1")
		f.hold(event("x", "a=1"))
		f.park(failure("p", at, event("z", "c=1")))
		require.Equal(f, []state{{HeldAt: 1}, {}, {HeldAt: 1, Parked: "p"}}, next.states("a", "b", "c"))
	}},
	{promise: "of several parkings, all are written or deleted, or none", run: func(f *fixture) {
		f.acquire("a", "b", "c")
		p, q, r := failure("p", at, event("x", "a=1")), failure("q", at.Add(1000), event("y", "b=2, c=3")), failure("r", at.Add(2000), event("z", "c=3"))
		next := f.beside()
		next.acquire("b")
		require.ErrorIs(f, f.tryPark(p, q), ordering.ErrFenced)
		require.Empty(f, f.parked())
		require.Empty(f, f.held("a", 0, 9))
		bad := failure("bad", at, event("y", "b=2"))
		bad.Streams = nil
		next.acquire("a", "b", "c")
		require.ErrorContains(f, next.tryPark(p, bad), "bad")
		require.Empty(f, f.parked())
		next.ok(next.tryPark(p, q, r)) // the last one takes c from the one before
		q.Streams = q.Streams[:1]
		require.Equal(f, listed(p, q, r), next.parked())
		require.ErrorIs(f, f.tryUnpark("p", "none", "q", "r"), ordering.ErrFenced)
		require.Len(f, next.parked(), 3)
		next.ok(next.tryUnpark("p", "none", "r"))
		require.Equal(f, listed(q), next.parked())
		require.Equal(f, []state{{HeldAt: 1}, {HeldAt: 2, Parked: "q"}, {HeldAt: 3}}, next.states("a", "b", "c"))
		next.ok(next.tryPark())
		next.ok(next.tryUnpark())
	}},
	{promise: "what was not acquired cannot be held", run: func(f *fixture) {
		f.acquire("a")
		require.ErrorIs(f, f.tryHold(event("x", "a=1, b=1")), ordering.ErrFenced)
		require.Empty(f, f.backlog())
	}},
	{promise: "what was not acquired cannot be parked or resumed", run: func(f *fixture) {
		f.acquire("a")
		x := event("x", "a=1, b=1")
		require.ErrorIs(f, f.tryPark(failure("p", at, x)), ordering.ErrFenced)
		require.Empty(f, f.parked())
		f.park(failure("p", at, x))
		delete(f.fences, lockkeys.Must("b"))
		require.ErrorIs(f, f.tryUnpark("p"), ordering.ErrFenced)
		require.Len(f, f.parked(), 1)
	}},
	{promise: "the holder's token is known", run: func(f *fixture) {
		first := f.acquire("a")[0].Fence
		require.Equal(f, first, f.fence("a"))
		second := f.beside().acquire("a")[0].Fence
		require.Equal(f, second, f.fence("a"))
		require.NotEqual(f, first, second)
	}},
	{promise: "tokens rise", run: func(f *fixture) {
		first := f.acquire("a", "b")
		second := f.another().acquire("a", "b")
		for i := range first {
			require.Greater(f, second[i].Fence, first[i].Fence)
		}
	}},
	{promise: "an older token is refused, whoever shows it", run: func(f *fixture) {
		f.acquire("a")
		next := f.another()
		next.acquire("a")
		next.fences = f.fences
		require.ErrorIs(f, next.try(event("late", "a=1")), ordering.ErrFenced)
		next.noJob("a=1")
	}},
	{promise: "a token that nobody was given is refused", run: func(f *fixture) {
		for _, known := range []bool{false, true} {
			if known {
				f.acquire("a")
			}
			for _, token := range []int64{0, -1, 1 << 60} {
				r := f.record(event("x", "a=1"))
				r.Fences[0] = token
				require.ErrorIs(f, f.term.Commit(f.ctx, r), ordering.ErrFenced)
			}
		}
		f.noJob("a=1")
	}},
	{promise: "to lose one stream of an event is to commit none", run: func(f *fixture) {
		f.acquire("a", "b", "c")
		next := f.beside()
		next.acquire("b")
		require.ErrorIs(f, f.try(event("x", "a=1, b=1, c=1")), ordering.ErrFenced)
		f.noJob("a=1")
		f.commit("a=1, c=1")
		next.commit("b=1")
		require.Equal(f, []state{{Last: 1}, {Last: 1}, {Last: 1}}, next.states("a", "b", "c"))
	}},
	{promise: "streams go back and forth", run: func(f *fixture) {
		f.acquire("a")
		next := f.beside()
		next.acquire("a")
		require.Equal(f, []state{{}}, f.states("a"))
		require.ErrorIs(f, next.try(event("x", "a=1")), ordering.ErrFenced)
		f.commit("a=1")
	}},
	{promise: "to acquire again is to fence oneself off", newTokens: true, run: func(f *fixture) {
		f.acquire("a")
		old := f.record(event("x", "a=1"))
		f.acquire("a")
		require.ErrorIs(f, f.term.Commit(f.ctx, old), ordering.ErrFenced)
		f.commit("a=1")
	}},
	{promise: "tokens rise over a restart", durable: true, run: func(f *fixture) {
		first := f.acquire("a")
		old := f.record(event("x", "a=1"))
		f.reopen()
		require.Greater(f, f.acquire("a")[0].Fence, first[0].Fence)
		require.ErrorIs(f, f.term.Commit(f.ctx, old), ordering.ErrFenced)
		f.commit("a=1")
	}},
}
