package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

func (h *holder) decisions(before time.Time, limit int) []ordering.JobState {
	h.t.Helper()
	list, err := h.term.Decisions(h.ctx, before, limit)
	h.ok(err)
	for i := range list {
		list[i].Started, list[i].Ended = list[i].Started.UTC(), list[i].Ended.UTC()
	}
	return list
}

// decided gives an event up some seconds after at.
func (h *holder) decided(e *ordering.Event, by string, seconds int) ordering.JobState {
	h.t.Helper()
	h.acquireNew(e.Positions)
	r := h.record(e)
	r.Status, r.Error, r.By, r.Reason = ordering.StatusDeadLettered, "no such account", by, "why "+by
	r.Ended = at.Add(time.Duration(seconds) * time.Second)
	h.ok(h.term.Commit(h.ctx, r))
	return r.State()
}

var decisionTests = []test{
	{promise: "what people decided, newest first, with who and why", run: func(f *fixture) {
		f.acquire("a", "b")
		f.commit("b=1")
		f.decided(event("z", "b=2"), "", 9)
		f.skip("b", 3, 4)
		first := f.decided(event("x", "a=1, c=1"), "ann", 1)
		key := lockkeys.Must("a")
		skipped := ordering.Skipped{Stream: key, From: 2, To: 7, Fence: f.fences[key], By: "bob\xff", Reason: "lost\x00", Time: at.Add(2 * time.Second)}
		f.ok(f.term.Skip(f.ctx, skipped))
		third := f.decided(command("c"), "cyd", 3)
		list := f.decisions(time.Time{}, 9)
		require.Len(f, list, 3)
		require.Equal(f, third, list[0])
		require.Contains(f, list[1].By, "bob")
		require.Contains(f, list[1].Reason, "lost")
		require.Equal(f, ordering.StatusSkipped, list[1].Status)
		require.Equal(f, skipped.JobState().Positions, list[1].Positions)
		require.Equal(f, first, list[2])
		require.Equal(f, first, f.job("a=1"))
		require.Equal(f, "ann", f.job("a=1").By)
		require.Equal(f, list[1], f.job("a=3"))
	}},
	{promise: "by pages, none of which parts what ended at one moment", run: func(f *fixture) {
		for i, seconds := range []int{1, 2, 2, 2, 3, 4} {
			f.decided(event("", fmt.Sprintf("a=%d", i+1)), "ann", seconds)
		}
		f.decided(command("c"), "ann", 2)
		require.Empty(f, f.decisions(time.Time{}, 0))
		require.Len(f, f.decisions(time.Time{}, 1), 1)
		require.Len(f, f.decisions(time.Time{}, 2), 2)
		page := f.decisions(time.Time{}, 3)
		require.Len(f, page, 6)
		page = f.decisions(page[5].Ended, 3)
		require.Len(f, page, 1)
		require.Equal(f, "a=1", page[0].Event)
		require.Empty(f, f.decisions(page[0].Ended, 3))
	}},
	{promise: "they are kept as long as job states", run: func(f *fixture) {
		f.decided(event("x", "a=1"), "ann", 1)
		f.decided(event("y", "a=2"), "ann", 2)
		require.EqualValues(f, 1, f.prune(at.Add(2*time.Second)))
		list := f.decisions(time.Time{}, 9)
		require.Len(f, list, 1)
		require.Equal(f, "y", list[0].Event)
	}},
	{promise: "what replaces a failure has no decision of its own", run: func(f *fixture) {
		x := event("x", "a=1")
		f.park(failure("p", at, x))
		require.Empty(f, f.decisions(time.Time{}, 9))
		f.unpark("p")
		f.decided(x, "ann", 1)
		require.Len(f, f.decisions(time.Time{}, 9), 1)
	}},
}
