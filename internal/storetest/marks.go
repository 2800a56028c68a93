package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
)

func (h *holder) mark(e *ordering.Event) int { return h.markAtMost(e, 1000) }

func (h *holder) markAtMost(e *ordering.Event, most int) int {
	h.t.Helper()
	n, err := h.term.Mark(h.ctx, e, most)
	h.ok(err)
	return n
}

func (h *holder) unmark(e *ordering.Event) {
	h.t.Helper()
	h.ok(h.term.Unmark(h.ctx, e))
}

var markTests = []test{
	{promise: "runs are counted by the numbers of an event, or the ID of a command", run: func(f *fixture) {
		require.Equal(f, 1, f.mark(event("x", "a=1, b=1")))
		require.Equal(f, 2, f.mark(event("another ID", "b=1, a=1;end")))
		require.Equal(f, 1, f.mark(event("x", "a=1")))
		require.Equal(f, 1, f.mark(event("x", "a=1, b=2")))
		require.Equal(f, 1, f.mark(command("x")))
		require.Equal(f, 2, f.mark(command("x")))
		require.Equal(f, 3, f.mark(event("x", "a=1, b=1")))
		_, err := f.term.Mark(f.ctx, nil, 1)
		require.ErrorIs(f, err, ordering.ErrNilEvent)
		require.ErrorIs(f, f.term.Unmark(f.ctx, nil), ordering.ErrNilEvent)
	}},
	{promise: "no more of them are counted than may be", run: func(f *fixture) {
		for _, e := range []*ordering.Event{event("x", "a=1, b=1"), command("x")} {
			require.Equal(f, 1, f.markAtMost(e, 1))
			require.Equal(f, 2, f.markAtMost(e, 1))
			require.Equal(f, 2, f.markAtMost(e, 1), "it was not counted")
			require.Equal(f, 2, f.markAtMost(e, 3))
			require.Equal(f, 3, f.markAtMost(e, 3))
			require.Equal(f, 4, f.markAtMost(e, 3))
			require.Equal(f, 2, f.markAtMost(e, 1), "there are more")
			require.Equal(f, 4, f.mark(e))
		}
	}},
	{promise: "a run that has come to an end is not counted any more", run: func(f *fixture) {
		x, c := event("x", "a=1"), command("c")
		for _, e := range []*ordering.Event{x, c} {
			f.unmark(e)
			f.mark(e)
			f.mark(e)
			f.unmark(e)
			require.Equal(f, 2, f.mark(e))
			f.unmark(e)
			f.unmark(e)
			f.unmark(e)
			require.Equal(f, 1, f.mark(e))
		}
		f.unmark(event("y", "a=2"))
		require.Equal(f, 2, f.mark(x))
	}},
	{promise: "that is so in a term that is over, and nothing is counted in it", run: func(f *fixture) {
		x := event("x", "a=1")
		f.mark(x)
		heir := f.next("heir")
		require.Equal(f, 2, heir.mark(x))
		_, err := f.term.Mark(f.ctx, x, 10)
		require.ErrorIs(f, err, ordering.ErrFenced)
		f.unmark(x)
		require.Equal(f, 2, heir.mark(x))
	}},
	{promise: "a commit that says so forgets them", run: func(f *fixture) {
		f.acquire("a")
		x, c := event("x", "a=1"), command("c")
		f.mark(x)
		f.mark(c)
		for _, e := range []*ordering.Event{x, c} {
			r := f.record(e)
			r.Marked = true
			f.ok(f.term.Commit(f.ctx, r))
			require.Equal(f, 1, f.mark(e))
			require.ErrorIs(f, f.term.Commit(f.ctx, r), ordering.ErrDuplicate)
			require.Equal(f, 2, f.mark(e), "nothing was written")
		}
		y := event("y", "a=2")
		f.mark(y)
		f.ok(f.try(y))
		require.Equal(f, 2, f.mark(y))
	}},
	{promise: "a parking forgets those of its events", run: func(f *fixture) {
		x, y := event("x", "a=1"), event("y", "b=1")
		f.mark(x)
		f.mark(y)
		f.park(failure("p", at, x))
		require.Equal(f, 1, f.mark(x))
		require.Equal(f, 2, f.mark(y))
	}},
	{promise: "they are pruned", run: func(f *fixture) {
		x, c := event("x", "a=1"), command("c")
		f.mark(x)
		f.mark(c)
		long := time.Now().Add(time.Hour)
		n, err := f.term.Prune(f.ctx, time.Now().Add(-time.Hour), long)
		f.ok(err)
		require.EqualValues(f, 1, n)
		require.Equal(f, 1, f.mark(c))
		require.Equal(f, 2, f.mark(x))
		n, err = f.term.Prune(f.ctx, long, time.Time{})
		f.ok(err)
		require.EqualValues(f, 1, n)
		require.Equal(f, 2, f.mark(c))
		require.Equal(f, 1, f.mark(x))
	}},
	{promise: "the next term counts on", run: func(f *fixture) {
		x := event("x", "a=1")
		f.mark(x)
		require.Equal(f, 2, f.next("heir").mark(x))
	}},
	{promise: "they are there after a restart", durable: true, run: func(f *fixture) {
		x := event("x", "a=1, b=1")
		f.mark(x)
		f.reopen()
		require.Equal(f, 2, f.mark(x))
	}},
}
