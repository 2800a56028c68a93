package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

var holdTests = []test{
	{promise: "in order of the numbers, on each of the streams", run: func(f *fixture) {
		f.hold(event("x", "a=5, b=1"), event("y", "a=2, b=3"), event("z", "b=2"))
		f.hold(event("w", "a=10"))
		require.Equal(f, []string{"y", "x", "w"}, f.held("a", 1, 99))
		require.Equal(f, []string{"x", "z", "y"}, f.held("b", 1, 99))
		require.Empty(f, f.held("c", 1, 99))
		require.Empty(f, f.held("/", 1, 99))
	}},
	{promise: "events with one number are as they came", run: func(f *fixture) {
		f.hold(event("y", "a=1"), event("Z", "a=1, c=1"), event("x", "a=1, b=1"))
		require.Equal(f, []string{"y", "Z", "x"}, f.held("a", 1, 9))
	}},
	{promise: "an event is known by its numbers, and any number of events may have one ID", run: func(f *fixture) {
		f.hold(event("x", "a=1"), event("x", "b=1"), event("x", "a=2, b=2"), event("x", "b=3, a=3"))
		require.Equal(f, []string{"x", "x", "x"}, f.held("a", 1, 9))
		require.Equal(f, []string{"x", "x", "x"}, f.held("b", 1, 9))
		f.hold(event("x", "a=1"), event("x", "b=2, a=2"), event("x", "a=3, b=3"))
		require.Len(f, f.held("a", 1, 9), 3, "copies of those before")
		f.commitHeld(event("x", "b=1"))
		require.Len(f, f.held("a", 1, 9), 3)
		require.Len(f, f.held("b", 1, 9), 2)
		f.park(failure("p", at, event("x", "a=2, b=2")))
		f.commitHeld(event("x", "b=2, a=2"))
		require.Equal(f, ordering.StatusApplied, f.job("a=2").Status)
		f.noJob("a=3, b=3")
		require.Len(f, f.held("a", 1, 9), 2)
	}},
	{promise: "another event with the numbers of one that is held is refused, with those beside it", run: func(f *fixture) {
		first := event("x", "a=1, b=1")
		f.hold(first)
		other := event("y", "b=1, a=1")
		changed, ends := event("x", "a=1, b=1"), event("x", "a=1, b=1;end")
		changed.Payload = []byte("another amount")
		for _, e := range []*ordering.Event{other, changed, ends} {
			var conflict *ordering.ConflictError
			err := f.tryHold(event("z", "a=2"), e, event("w", "a=3"))
			require.ErrorAs(f, err, &conflict)
			require.ErrorIs(f, err, ordering.ErrContradiction)
			require.Equal(f, e, conflict.Event)
			require.Equal(f, "x", conflict.Other)
			require.Equal(f, []string{"x"}, f.held("a", 1, 9))
		}
		f.hold(event("z", "a=1"), event("w", "a=1, c=1")) // they may be held, since they have other numbers, though they contradict the first
		require.Equal(f, []string{"x", "z", "w"}, f.held("a", 1, 9))
	}},
	{promise: "of two in one call with the same numbers neither is held, unless they are copies", run: func(f *fixture) {
		f.acquire("a")
		require.ErrorAs(f, f.tryHold(event("x", "a=1"), event("y", "a=1")), new(*ordering.ConflictError))
		require.Empty(f, f.held("a", 1, 9))
		f.ok(f.tryHold(event("x", "a=1"), event("x", "a=1")))
		require.Len(f, f.held("a", 1, 9), 1)
	}},
	{promise: "no more than so many bytes, but one", run: func(f *fixture) {
		for n := range 5 {
			e := event("", fmt.Sprintf("a=%d", n+1))
			e.Payload = make([]byte, 64<<10)
			f.hold(e)
		}
		count := func(from uint64, size int64) int {
			events, err := f.term.Held(f.ctx, lockkeys.Must("a"), from, 9, size)
			f.ok(err)
			for i, e := range events {
				p, _ := e.On(lockkeys.Must("a"))
				require.Equal(f, from+uint64(i), p.Number)
				require.Len(f, e.Payload, 64<<10)
			}
			return len(events)
		}
		require.Equal(f, 1, count(1, 0))
		require.Equal(f, 1, count(2, -1))
		require.Equal(f, 1, count(1, 64<<10))
		require.Contains(f, []int{2, 3}, count(2, 200<<10)) // as the store keeps them
		require.Equal(f, 5, count(1, 1<<20))
	}},
	{promise: "what is forgotten is held no more, and nothing is done by that", run: func(f *fixture) {
		x := event("x", "a=1, b=1")
		f.hold(x, event("x", "a=2"))
		f.ok(f.term.Forget(f.ctx, event("x", "b=1, a=1"), f.fences))
		require.Len(f, f.held("a", 1, 9), 1)
		require.Empty(f, f.held("b", 1, 9))
		require.Equal(f, []state{{HeldAt: 2}, {}}, f.states("a", "b"))
		f.ok(f.term.Forget(f.ctx, x, f.fences))
	}},
	{promise: "page by page", run: func(f *fixture) {
		for n := 1; n <= 10; n++ {
			f.hold(event(fmt.Sprint("e", n), fmt.Sprintf("a=%d", n*10)))
		}
		require.Equal(f, []string{"e1", "e2", "e3"}, f.held("a", 0, 3))
		require.Equal(f, []string{"e4", "e5", "e6"}, f.held("a", 31, 3))
		require.Equal(f, []string{"e7"}, f.held("a", 70, 1))
		require.Equal(f, []string{"e10"}, f.held("a", 100, 3))
		require.Empty(f, f.held("a", 101, 3))
		require.Empty(f, f.held("a", ordering.MaxPlace, 3))
	}},
	{promise: "an event that is held stays as it is", run: func(f *fixture) {
		first := event("x", "a=1")
		first.Headers = map[string]string{"trace": "first"}
		f.hold(first)
		second := event("x", "a=1")
		second.Headers = map[string]string{"trace": "second"} // which does not make it another
		f.hold(second, event("y", "a=2"), event("y", "a=2"))
		events, err := f.term.Held(f.ctx, lockkeys.Must("a"), 1, 9, 1<<20)
		f.ok(err)
		require.Len(f, events, 2)
		require.Equal(f, "first", events[0].Headers["trace"])
	}},
	{promise: "an event comes back whole", run: func(f *fixture) {
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		e := &ordering.Event{ID: "x", Type: "order.placed", Positions: event("", "a=1, b=7;end").Positions, Payload: all,
			Headers: map[string]string{"trace": "1", "": "empty", "ключ": "значение \" \\ \n"},
			Time:    time.Date(2026, 1, 1, 0, 0, 0, 123456789, time.UTC), CorrelationID: "c", CausationID: "d"}
		f.hold(e)
		events, err := f.term.Held(f.ctx, lockkeys.Must("b"), 1, 9, 1<<20)
		f.ok(err)
		require.Equal(f, []ordering.HeldEvent{{Event: e}}, events)
	}},
	{promise: "no events is no error", run: func(f *fixture) {
		f.hold()
		require.Empty(f, f.backlog())
	}},
	{promise: "the held copy is forgotten with the commit", run: func(f *fixture) {
		f.acquire("a", "b")
		x, y := event("x", "a=1, b=1"), event("y", "a=2")
		f.hold(x, y)
		f.commitHeld(x)
		require.Equal(f, []string{"y"}, f.held("a", 0, 9))
		require.Empty(f, f.held("b", 0, 9))
		f.commitHeld(y)
		require.Empty(f, f.held("a", 0, 9))
		require.Empty(f, f.backlog())
	}},
	{promise: "the backlog is every stream with held events", run: func(f *fixture) {
		require.Empty(f, f.backlog())
		f.hold(event("x", "a=5, b=1"), event("y", "a=6"), event("z", "c/d=3"))
		require.ElementsMatch(f, []string{"a", "b", "c/d"}, f.backlog())
		require.Equal(f, []state{{HeldAt: 5}, {HeldAt: 1}, {HeldAt: 3}, {}}, f.states("a", "b", "c/d", "c"))
	}},
	{promise: "held events are there after a restart", durable: true, run: func(f *fixture) {
		f.acquire("a")
		f.hold(event("x", "a=2"), event("y", "a=1"))
		f.commitHeld(event("y", "a=1"))
		f.reopen()
		require.Equal(f, []string{"a"}, f.backlog())
		require.Equal(f, []state{{Last: 1, HeldAt: 2}}, f.states("a"))
		require.Equal(f, []string{"x"}, f.held("a", 0, 9))
		f.commitHeld(event("x", "a=2"))
		require.Empty(f, f.backlog())
	}},
}
