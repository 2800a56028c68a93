package storetest

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
)

var commitTests = []test{
	{promise: "in order", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1", "a=2", "a=3")
		require.Equal(f, []state{{Last: 3}}, f.states("a"))
	}},
	{promise: "out of order, the last number takes in what is done above it", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=5", "a=2", "a=4")
		require.Equal(f, []state{{Done: spans(2, 4, 5)}}, f.states("a"))
		f.commit("a=1")
		require.Equal(f, []state{{Last: 2, Done: spans(4, 5)}}, f.states("a"))
		f.commit("a=3")
		require.Equal(f, []state{{Last: 5}}, f.states("a"))
	}},
	{promise: "many numbers out of order", run: func(f *fixture) {
		f.acquire("a")
		for n := 60; n > 1; n-- {
			f.commit(fmt.Sprintf("a=%d", n))
		}
		states := f.states("a")
		require.Zero(f, states[0].Last)
		require.Equal(f, ordering.Spans{{From: 2, To: 60}}, states[0].Done)
		f.commit("a=1")
		require.Equal(f, []state{{Last: 60}}, f.states("a"))
	}},
	{promise: "all numbers of an event, each on its stream", run: func(f *fixture) {
		f.acquire("a", "b", "c")
		f.commit("b=1", "c=1, a=1, b=2", "a=3, c=2")
		require.Equal(f, []state{{Last: 1, Done: spans(3)}, {Last: 2}, {Last: 2}}, f.states("a", "b", "c"))
	}},
	{promise: "a number is done once", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1", "a=2", "a=4")
		for _, p := range []string{"a=1", "a=2", "a=4"} {
			require.ErrorIs(f, f.try(event("twin", p)), ordering.ErrDuplicate, p)
		}
		require.Equal(f, "a=1", f.job("a=1").Event)
		require.Equal(f, "a=4", f.job("a=4").Event)
		require.Equal(f, []state{{Last: 2, Done: spans(4)}}, f.states("a"))
	}},
	{promise: "a duplicate on any stream changes nothing on any", run: func(f *fixture) {
		f.acquire("a", "b", "c")
		f.commit("b=1", "b=3")
		for _, p := range []string{"a=1, b=1, c=1", "b=1, a=1", "a=1, c=1, b=1", "c=1, b=3", "b=3, a=2"} {
			twin := event("twin", p)
			f.hold(twin)
			r := f.record(twin)
			r.Held = true
			require.ErrorIs(f, f.term.Commit(f.ctx, r), ordering.ErrDuplicate, p)
			require.Equal(f, "b=1", f.job("b=1").Event)
			f.noJob("a=1, c=1")
			require.Contains(f, f.held("b", 1, 9), twin.ID, "not forgotten")
		}
		require.Equal(f, []state{{HeldAt: 1}, {Last: 1, Done: spans(3), HeldAt: 1}, {HeldAt: 1}}, f.states("a", "b", "c"))
	}},
	{promise: "an error has the number at fault in its text", run: func(f *fixture) {
		f.acquire("a", "client/7")
		f.commit("client/7=1")
		require.ErrorContains(f, f.try(event("", "a=1, client/7=1")), "client/7")
	}},
	{promise: "an event with very many streams", run: func(f *fixture) {
		e := &ordering.Event{}
		for i := range 300 {
			e.Positions = append(e.Positions, event("", fmt.Sprintf("s/%d=1", i)).Positions[0])
		}
		for _, p := range e.Positions {
			f.acquireKeys(p.Stream)
		}
		f.hold(e)
		require.Equal(f, []string{e.Name()}, f.held("s/299", 1, 9))
		f.commitHeld(e)
		require.Empty(f, f.held("s/299", 1, 9))
		require.Equal(f, 1, f.jobAt(e.Positions[:1]).Attempts)
		require.ErrorIs(f, f.try(event("", "s/150=1")), ordering.ErrDuplicate)
		require.Equal(f, []state{{Last: 1}, {Last: 1}}, f.states("s/0", "s/299"))
	}},
	{promise: "what was given up is done as well", run: func(f *fixture) {
		f.acquire("a")
		r := f.record(event("x", "a=1;end"))
		r.Status, r.Error = ordering.StatusDeadLettered, "no such account"
		f.ok(f.term.Commit(f.ctx, r))
		require.Equal(f, []state{{Last: 1, Ended: 1}}, f.states("a"))
		require.Equal(f, r.State(), f.job("a=1"))
	}},
	{promise: "a record without an event, or a token for each position, is refused", run: func(f *fixture) {
		f.acquire("a", "b")
		r := f.record(event("x", "a=1, b=1"))
		r.Fences = r.Fences[:1]
		require.Error(f, f.term.Commit(f.ctx, r))
		require.Error(f, f.term.Commit(f.ctx, ordering.Record{}))
		require.Error(f, f.term.Commit(f.ctx, ordering.Record{Event: &ordering.Event{}}))
		f.noJob("a=1, b=1")
		require.Equal(f, []state{{}, {}}, f.states("a", "b"))
	}},
	{promise: "the largest number", run: func(f *fixture) {
		f.acquire("a")
		last := fmt.Sprintf("a=%d;epoch=65535", ordering.MaxNumber)
		f.commit(last + ";end")
		require.Equal(f, []state{{Done: spans(ordering.MaxPlace), Ended: ordering.MaxPlace}}, f.states("a"))
		f.skip("a", 1, ordering.MaxPlace-1)
		require.Equal(f, []state{{Last: ordering.MaxPlace, Ended: ordering.MaxPlace}}, f.states("a"))
		require.ErrorIs(f, f.try(event("", last)), ordering.ErrDuplicate)
	}},
	{promise: "a commit with a cancelled context does nothing", run: func(f *fixture) {
		f.acquire("a")
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		require.ErrorIs(f, f.term.Commit(ctx, f.record(event("x", "a=1"))), context.Canceled)
		f.noJob("a=1")
		require.Equal(f, []state{{}}, f.states("a"))
		f.commit("a=1")
	}},
}
