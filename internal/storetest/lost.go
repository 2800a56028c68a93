package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// tryKnowing commits an event whose streams are known to be done up to numbers.
func (h *holder) tryKnowing(positions string, known ...uint64) error {
	r := h.record(event("", positions))
	r.Known = known
	return h.term.Commit(h.ctx, r)
}

// lost checks that a store has lost numbers of a stream.
func (f *fixture) lost(err error, stream string, known, has uint64) {
	f.Helper()
	var lost *ordering.LostError
	require.ErrorAs(f, err, &lost)
	require.Equal(f, ordering.LostError{Stream: lockkeys.Must(stream), Known: known, Has: has}, *lost)
	require.NotErrorIs(f, err, ordering.ErrFenced)
	require.NotErrorIs(f, err, ordering.ErrDuplicate)
}

var lostTests = []test{
	{promise: "who knows no more than the store commits", run: func(f *fixture) {
		f.acquire("a", "b")
		f.ok(f.tryKnowing("a=1", 0))
		f.ok(f.tryKnowing("a=2", 1))
		f.ok(f.tryKnowing("a=4", 2))
		f.ok(f.tryKnowing("b=1, a=3", 0, 1))
		f.ok(f.tryKnowing("a=5, b=3", 4, 1))
		require.ErrorIs(f, f.tryKnowing("a=5", 4), ordering.ErrDuplicate)
		require.Equal(f, []state{{Last: 5}, {Last: 1, Done: spans(3)}}, f.states("a", "b"))
	}},
	{promise: "a store that knows less has lost commits, and takes none", run: func(f *fixture) {
		f.acquire("a", "b")
		f.commit("a=1", "b=1")
		f.lost(f.tryKnowing("a=2", 2), "a", 2, 1)
		f.lost(f.tryKnowing("a=5", 4), "a", 4, 1)
		f.lost(f.tryKnowing("a=1", 3), "a", 3, 1)
		f.lost(f.tryKnowing("b=2, a=2", 1, 7), "a", 7, 1)
		f.lost(f.tryKnowing("a=2, b=2", 1, ordering.MaxPlace), "b", ordering.MaxPlace, 1)
		key := lockkeys.Must("a")
		skip := ordering.Skipped{Stream: key, From: 2, To: 3, Fence: f.fences[key], Known: 2, Time: at}
		f.lost(f.term.Skip(f.ctx, skip), "a", 2, 1)
		require.Equal(f, []state{{Last: 1}, {Last: 1}}, f.states("a", "b"))
		f.noJob("a=2, b=2")
		skip.Fence, skip.Known = f.fences[key], 1
		f.ok(f.term.Skip(f.ctx, skip))
	}},
	{promise: "one known number for each position", run: func(f *fixture) {
		f.acquire("a", "b")
		require.ErrorContains(f, f.tryKnowing("a=1, b=1", 0), "known")
		require.Equal(f, []state{{}, {}}, f.states("a", "b"))
	}},
}
