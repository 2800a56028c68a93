package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// failure is a parking for events that failed, which closes their streams.
func failure(id string, since time.Time, events ...*ordering.Event) ordering.Parking {
	p := ordering.Parking{ID: id, Reason: ordering.Failure, Error: id + " failed", Since: since}
	for _, e := range events {
		p.Streams = append(p.Streams, closing(e.Positions)...)
		p.Events = append(p.Events, ordering.HeldEvent{Event: e, Attempts: 3, Started: since.Add(-time.Minute)})
	}
	return p
}

var parkTests = []test{
	{promise: "streams are closed at their numbers, their events held", run: func(f *fixture) {
		x := event("x", "a=5, b=2")
		f.park(failure("p", at, x))
		require.Equal(f, []state{{HeldAt: 5, Parked: "p"}, {HeldAt: 2, Parked: "p"}, {}}, f.states("a", "b", "c"))
		require.Equal(f, listed(failure("p", at, x)), f.parked())
		require.Equal(f, []string{"x"}, f.held("a", 0, 9))
		require.Empty(f, f.backlog(), "parked streams are none")
	}},
	{promise: "what bound a stream, and how much waits behind each", run: func(f *fixture) {
		p := failure("p", at, event("x", "a=2"))
		p.Streams = append(p.Streams, ordering.ParkedStream{Stream: lockkeys.Must("b"), Number: 5, Bound: "a3 \xff"})
		f.park(p)
		f.hold(event("a3", "a=3, b=5"), event("b6", "b=6"), event("c1", "c=1"))
		f.hold(event("a3", "a=3, b=5"))
		waiting := func() (list []int64) {
			for _, s := range f.parkedAndWaiting()[0].Streams {
				list = append(list, s.Waiting)
			}
			return list
		}
		require.Equal(f, []int64{2, 2}, waiting())
		streams := f.parkedAndWaiting()[0].Streams
		require.Empty(f, streams[0].Bound)
		require.Contains(f, streams[1].Bound, "a3")
		f.ok(f.term.Forget(f.ctx, event("b6", "b=6"), f.fences))
		f.ok(f.term.Forget(f.ctx, event("b6", "b=6"), f.fences))
		f.commitHeld(event("x", "a=2"))
		require.Equal(f, []int64{1, 1}, waiting())
		q := failure("q", at, event("y", "b=9"))
		f.park(q)
		require.Equal(f, []int64{1}, waiting())
		require.Equal(f, listed(q)[0].Streams, f.parked("q")[0].Streams, "bound by nothing")
		require.EqualValues(f, 2, f.parkedAndWaiting("q")[0].Streams[0].Waiting)
	}},
	{promise: "some of many are listed", run: func(f *fixture) {
		var ids []string
		for i := range 150 {
			ids = append(ids, fmt.Sprint("p", i))
			f.park(failure(ids[i], at.Add(time.Duration(i)*time.Second), event(fmt.Sprint("e", i), fmt.Sprintf("a%d=1, b%d=2", i, i))))
		}
		all := f.parked()
		require.Len(f, all, 150)
		require.Equal(f, all, f.parked(ids...))
		require.Equal(f, all[10:], f.parked(ids[10:]...))
		require.Equal(f, all[3:5], f.parked("p4", "none", "p3"))
		require.Empty(f, f.parked("none"))
	}},
	{promise: "what a parking held comes back with its attempts", run: func(f *fixture) {
		x := event("x", "a=1")
		f.hold(x)
		f.park(failure("p", at, x))
		events, err := f.term.Held(f.ctx, lockkeys.Must("a"), 1, 9, 1<<20)
		f.ok(err)
		require.Len(f, events, 1)
		require.Equal(f, 3, events[0].Attempts)
		require.True(f, at.Add(-time.Minute).Equal(events[0].Started))
		f.hold(x)
		events, err = f.term.Held(f.ctx, lockkeys.Must("a"), 1, 9, 1<<20)
		f.ok(err)
		require.Equal(f, 3, events[0].Attempts, "stays")
	}},
	{promise: "a failed event has a job state", run: func(f *fixture) {
		x := event("x", "a=1")
		f.park(failure("p", at, x))
		require.Equal(f, ordering.JobState{Event: "x", Positions: x.Positions, Status: ordering.StatusParked, Attempts: 3,
			Error: "p failed", Started: at.Add(-time.Minute), Ended: at}, f.job("a=1"))
	}},
	{promise: "events without an error have none", run: func(f *fixture) {
		p := failure("p", at, event("x", "a=1"))
		p.Reason, p.Error = ordering.Waiting, ""
		f.park(p)
		f.noJob("a=1")
		require.Equal(f, listed(p), f.parked())
	}},
	{promise: "a parking for a gap", run: func(f *fixture) {
		gap := ordering.Parking{ID: "g", Reason: ordering.Gap, Streams: closing(event("", "a=3").Positions), Error: "nobody has them", Since: at,
			Gap: ordering.Range{Stream: lockkeys.Must("a"), From: 3, To: ordering.MaxNumber}}
		f.park(gap)
		require.Equal(f, listed(gap), f.parked())
		require.Equal(f, []state{{HeldAt: 3, Parked: "g"}}, f.states("a"))
	}},
	{promise: "what is below goes on, what is above may be held", run: func(f *fixture) {
		f.acquire("a")
		f.park(failure("p", at, event("x", "a=3")))
		f.hold(event("y", "a=4"))
		f.commit("a=1", "a=2")
		require.Equal(f, []state{{Last: 2, HeldAt: 3, Parked: "p"}}, f.states("a"))
		require.Equal(f, []string{"x", "y"}, f.held("a", 0, 9))
	}},
	{promise: "held events from before keep a parked stream closed at theirs", run: func(f *fixture) {
		f.hold(event("before", "a=2"))
		f.park(failure("p", at, event("x", "a=5, b=1")))
		require.Equal(f, []state{{HeldAt: 2, Parked: "p"}}, f.states("a"))
		require.Empty(f, f.backlog())
		f.unpark("p")
		require.Equal(f, []state{{HeldAt: 2}}, f.states("a"))
		require.ElementsMatch(f, []string{"a", "b"}, f.backlog())
	}},
	{promise: "to unpark opens the streams, what is held stays", run: func(f *fixture) {
		f.acquire("a", "b")
		x := event("x", "a=1, b=1")
		f.park(failure("p", at, x))
		f.hold(event("y", "a=2"))
		f.unpark("p")
		require.Empty(f, f.parked())
		require.ElementsMatch(f, []string{"a", "b"}, f.backlog())
		require.Equal(f, []state{{HeldAt: 1}, {HeldAt: 1}}, f.states("a", "b"))
		f.commitHeld(x)
		require.Equal(f, []state{{Last: 1, HeldAt: 2}, {Last: 1}}, f.states("a", "b"))
		require.Equal(f, []string{"a"}, f.backlog())
	}},
	{promise: "to unpark what is not parked is no error", run: func(f *fixture) {
		f.unpark("nothing")
		f.park(failure("p", at, event("x", "a=1")))
		f.unpark("nothing")
		require.Len(f, f.parked(), 1)
		f.unpark("p")
		f.unpark("p")
	}},
	{promise: "a parking with the same ID is replaced, but keeps its streams", run: func(f *fixture) {
		f.park(failure("p", at, event("x", "a=1, b=1")))
		second := failure("p", at.Add(time.Second), event("y", "b=3"), event("z", "c=4"))
		f.park(second)
		second.Streams = closing(event("", "a=1, b=3, c=4").Positions)
		require.Equal(f, listed(second), f.parked())
		require.Equal(f, []state{{HeldAt: 1, Parked: "p"}, {HeldAt: 1, Parked: "p"}, {HeldAt: 4, Parked: "p"}}, f.states("a", "b", "c"),
			"x is held on a and b")
		require.Empty(f, f.backlog())
	}},
	{promise: "a parking that takes the streams of another replaces it", run: func(f *fixture) {
		f.park(failure("p", at, event("x", "a=1, b=1")))
		part := failure("q", at, event("y", "b=2"))
		f.park(part)
		left := failure("p", at, event("x", "a=1, b=1"))
		left.Streams = left.Streams[:1]
		require.Equal(f, listed(left, part), f.parked())

		whole := failure("q", at, event("x", "a=1, b=1"), event("y", "b=2"))
		whole.Streams = closing(event("", "a=1, b=1").Positions)
		f.park(whole)
		require.Equal(f, listed(whole), f.parked())
		f.unpark("p")
		require.Equal(f, []state{{HeldAt: 1, Parked: "q"}, {HeldAt: 1, Parked: "q"}}, f.states("a", "b"))
		f.unpark("q")
		require.Equal(f, []state{{HeldAt: 1}, {HeldAt: 1}}, f.states("a", "b"))
	}},
	{promise: "a parking without streams is refused", run: func(f *fixture) {
		require.Error(f, f.tryPark(ordering.Parking{ID: "p", Reason: ordering.Failure, Since: at}))
		require.Empty(f, f.parked())
	}},
	{promise: "parkings are listed longest first, their streams by key", run: func(f *fixture) {
		late := failure("a", at.Add(2*time.Second), event("x", "s/10=1"))
		early := failure("c", at, event("y", "t=1"))
		middle := failure("b", at.Add(time.Microsecond), event("z", "z=1"))
		middle.Streams = closing(event("", "b=4, a=9, a/b=1, a-b=1").Positions)
		for _, p := range []ordering.Parking{late, early, middle} {
			f.park(p)
		}
		middle.Streams = closing(event("", "a=9, a/b=1, a-b=1, b=4").Positions)
		require.Equal(f, listed(early, middle, late), f.parked())
	}},
	{promise: "parkings are there after a restart", durable: true, run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1")
		p := failure("p", at, event("x", "a=2, b=1"))
		f.park(p)
		f.hold(event("y", "a=3"))
		f.reopen()
		require.Equal(f, listed(p), f.parked())
		require.Empty(f, f.backlog())
		require.Equal(f, []state{{Last: 1, HeldAt: 2, Parked: "p"}, {HeldAt: 1, Parked: "p"}}, f.states("a", "b"))
		f.unpark("p")
		f.reopen()
		require.Empty(f, f.parked())
		require.ElementsMatch(f, []string{"a", "b"}, f.backlog())
	}},
}
