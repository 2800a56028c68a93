package storetest

import (
	"github.com/stretchr/testify/require"

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
		next.noJob("late")
		next.commit("a=2")
		require.Equal(f, []state{{Last: 3}}, next.states("a"))
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
		next.noJob("late")
	}},
	{promise: "a token that nobody was given is refused", run: func(f *fixture) {
		for _, known := range []bool{false, true} {
			if known {
				f.acquire("a")
			}
			for _, token := range []int64{0, -1, 1 << 60} {
				r := f.record(event("x", "a=1"))
				r.Fences[0] = token
				require.ErrorIs(f, f.store.Commit(f.ctx, r), ordering.ErrFenced)
			}
		}
		f.noJob("x")
	}},
	{promise: "to lose one stream of an event is to commit none", perStream: true, run: func(f *fixture) {
		f.acquire("a", "b", "c")
		next := f.another()
		next.acquire("b")
		require.ErrorIs(f, f.try(event("x", "a=1, b=1, c=1")), ordering.ErrFenced)
		f.noJob("x")
		f.commit("a=1, c=1")
		next.commit("b=1")
		require.Equal(f, []state{{Last: 1}, {Last: 1}, {Last: 1}}, next.states("a", "b", "c"))
	}},
	{promise: "streams go back and forth", perStream: true, run: func(f *fixture) {
		f.acquire("a")
		next := f.another()
		next.acquire("a")
		require.Equal(f, []state{{}}, f.states("a"))
		require.ErrorIs(f, next.try(event("x", "a=1")), ordering.ErrFenced)
		f.commit("a=1")
	}},
	{promise: "to acquire again is to fence oneself off", perStream: true, run: func(f *fixture) {
		f.acquire("a")
		old := f.record(event("x", "a=1"))
		f.acquire("a")
		require.ErrorIs(f, f.store.Commit(f.ctx, old), ordering.ErrFenced)
		f.commit("a=1")
	}},
	{promise: "tokens rise over a restart", durable: true, run: func(f *fixture) {
		first := f.acquire("a")
		old := f.record(event("x", "a=1"))
		f.reopen()
		require.Greater(f, f.acquire("a")[0].Fence, first[0].Fence)
		require.ErrorIs(f, f.store.Commit(f.ctx, old), ordering.ErrFenced)
		f.commit("a=1")
	}},
}
