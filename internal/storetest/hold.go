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
	{promise: "events with one number are in order of their names", run: func(f *fixture) {
		f.hold(event("y", "a=1"), event("Z", "a=1"), event("x", "a=1, b=1"))
		require.Equal(f, []string{"Z", "x", "y"}, f.held("a", 1, 9))
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
		require.Empty(f, f.held("a", ordering.MaxNumber, 3))
	}},
	{promise: "an event that is held stays as it is", run: func(f *fixture) {
		first := event("x", "a=1")
		first.Payload = []byte("first")
		f.hold(first)
		second := event("x", "a=1")
		second.Payload = []byte("second")
		f.hold(second, event("y", "a=2"), event("y", "a=2"))
		events, err := f.store.Held(f.ctx, lockkeys.Must("a"), 1, 9)
		f.ok(err)
		require.Len(f, events, 2)
		require.Equal(f, "first", string(events[0].Payload))
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
		events, err := f.store.Held(f.ctx, lockkeys.Must("b"), 1, 9)
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
