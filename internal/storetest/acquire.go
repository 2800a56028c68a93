package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
)

// state is a short name of what most tests compare.
type state = ordering.StreamState

var acquireTests = []test{
	{promise: "an unknown stream starts at 0", run: func(f *fixture) {
		require.Equal(f, []state{{}, {}}, f.states("a", "b/c"))
	}},
	{promise: "no streams, no states", run: func(f *fixture) {
		require.Empty(f, f.acquire())
	}},
	{promise: "states are in the order asked for, known and unknown mixed", run: func(f *fixture) {
		f.acquire("a", "b")
		f.commit("a=1", "b=1", "b=2")
		require.Equal(f, []state{{Last: 2}, {}, {Last: 1}}, f.states("b", "new", "a"))
	}},
	{promise: "a stream is not its parent or child", run: func(f *fixture) {
		f.acquire("a", "a/b", "/")
		f.commit("a/b=1", "a/b=2", "/=1")
		require.Equal(f, []state{{}, {Last: 2}, {}, {Last: 1}}, f.states("a", "a/b", "a/b/c", "/"))
	}},
	{promise: "many streams at once", run: func(f *fixture) {
		const streams = 2000
		names := make([]string, streams)
		for i := range names {
			names[i] = "client/" + string(rune('a'+i%26)) + "/" + string(rune(0x4e00+i))
		}
		f.acquire(names...)
		f.commit(names[7]+"=1", names[1999]+"=1", names[1999]+"=2")
		got := f.states(names...)
		want := make([]state, streams)
		want[7].Last, want[1999].Last = 1, 2
		require.Equal(f, want, got)
	}},
	{promise: "an ended stream says its last number", run: func(f *fixture) {
		f.acquire("a", "b")
		f.commit("a=1", "a=2;end, b=1")
		require.Equal(f, []state{{Last: 2, Ended: 2}, {Last: 1}}, f.states("a", "b"))
	}},
	{promise: "an end that is done before what comes before it", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=3;end")
		require.Equal(f, []state{{Done: spans(3), Ended: 3}}, f.states("a"))
		f.commit("a=1", "a=2")
		require.Equal(f, []state{{Last: 3, Ended: 3}}, f.states("a"))
	}},
	{promise: "a stream that has ended keeps its numbers", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1;end")
		require.ErrorIs(f, f.try(event("twin", "a=1;end")), ordering.ErrDuplicate)
	}},
}
