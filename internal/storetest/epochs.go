package storetest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// placeIn is the place of a number in an epoch.
func placeIn(epoch uint16, number uint64) uint64 {
	return ordering.Position{Epoch: epoch, Number: number}.Place()
}

var epochTests = []test{
	{promise: "a number in another epoch is another number", run: func(f *fixture) {
		f.acquire("a", "b")
		f.commit("a=1")
		f.ok(f.try(event("x", "a=1;epoch=2")))
		require.Equal(f, []state{{Last: 1, Done: spans(placeIn(2, 1))}}, f.states("a"))
		require.Equal(f, "a=1", f.job("a=1").Event)
		require.Equal(f, "x", f.job("a=1;epoch=2").Event)
		require.Equal(f, event("", "a=1;epoch=2").Positions, f.job("a=1;epoch=2").Positions)
		require.ErrorIs(f, f.try(event("", "a=1;epoch=2")), ordering.ErrDuplicate)
		f.noJob("a=1;epoch=1")
		f.commit("a=1;epoch=1, b=4;epoch=2")
		require.Equal(f, event("", "a=1;epoch=1, b=4;epoch=2").Positions, f.job("a=1;epoch=1").Positions)
	}},
	{promise: "what is left of an epoch can be skipped, and the next one goes on", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1")
		f.skip("a", 2, placeIn(2, 0))
		require.Equal(f, []state{{Last: placeIn(2, 0)}}, f.states("a"))
		require.ErrorIs(f, f.try(event("late", "a=2")), ordering.ErrDuplicate)
		require.ErrorIs(f, f.try(event("late", "a=7;epoch=1")), ordering.ErrDuplicate)
		f.commit("a=1;epoch=2", "a=2;epoch=2")
		require.Equal(f, []state{{Last: placeIn(2, 2)}}, f.states("a"))
	}},
	{promise: "while events of it have not ended", run: func(f *fixture) {
		f.acquire("a")
		f.skip("a", 3, placeIn(1, 0))
		f.commit("a=1;epoch=1", "a=2", "a=1")
		require.Equal(f, []state{{Last: placeIn(1, 1)}}, f.states("a"))
	}},
	{promise: "the record of that is not pruned", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1")
		f.skip("a", 2, 3)
		f.skip("a", 4, placeIn(2, 0))
		f.commit("a=1;epoch=2")
		n, err := f.term.Prune(f.ctx, at.Add(time.Hour), time.Time{})
		f.ok(err)
		require.EqualValues(f, 3, n)
		f.noJob("a=1")
		f.noJob("a=3")
		for _, p := range []string{"a=4", "a=100000000000000", "a=1;epoch=1"} {
			known := f.look(p)[0]
			require.True(f, known.Done)
			require.Equal(f, "a=4 until epoch 2", known.Job.Event)
			require.Equal(f, ordering.StatusSkipped, known.Job.Status)
		}
		n, err = f.term.Prune(f.ctx, at.Add(time.Hour), time.Time{})
		f.ok(err)
		require.Zero(f, n)
	}},
	{promise: "the end of a later epoch is the one that is known", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1;end")
		f.skip("a", 2, placeIn(1, 0))
		f.commit("a=1;epoch=1")
		require.Equal(f, []state{{Last: placeIn(1, 1), Ended: 1}}, f.states("a"))
		f.commit("a=3;epoch=1;end", "a=2;epoch=1")
		require.Equal(f, []state{{Last: placeIn(1, 3), Ended: placeIn(1, 3)}}, f.states("a"))
		f.acquire("b")
		f.commit("b=1;epoch=1;end", "b=1;end") // they ran side by side
		require.Equal(f, []state{{Last: 1, Done: spans(placeIn(1, 1)), Ended: placeIn(1, 1)}}, f.states("b"))
	}},
	{promise: "held events are in order of their epochs", run: func(f *fixture) {
		f.hold(event("y", "a=1;epoch=2"), event("x", "a=9"), event("z", "a=2;epoch=2"), event("w", "a=1"))
		require.Equal(f, []string{"w", "x", "y", "z"}, f.held("a", 1, 9))
		require.Equal(f, []string{"y", "z"}, f.held("a", placeIn(1, 1), 9))
		require.Equal(f, []state{{HeldAt: 1}}, f.states("a"))
		f.ok(f.term.Forget(f.ctx, event("w", "a=1"), f.fences))
		require.Equal(f, []string{"x", "y", "z"}, f.held("a", 1, 9))
		require.ErrorAs(f, f.tryHold(event("other", "a=1;epoch=2")), new(*ordering.ConflictError))
		f.commitHeld(event("x", "a=9"))
		f.commitHeld(event("y", "a=1;epoch=2"))
		require.Equal(f, []string{"z"}, f.held("a", 1, 9))
	}},
	{promise: "a parking is at a position, and for a range, of an epoch", run: func(f *fixture) {
		p := ordering.Parking{ID: "p", Reason: ordering.Gap, Streams: closing(event("", "a=3;epoch=2").Positions), Error: "missing", Since: at,
			Gap: ordering.Range{Stream: lockkeys.Must("a"), Epoch: 2, From: 3, To: 7}}
		f.park(p)
		require.Equal(f, listed(p), f.parked())
		require.Equal(f, []state{{HeldAt: placeIn(2, 3), Parked: "p"}}, f.states("a"))
	}},
	{promise: "a mark is of an event in its epoch", run: func(f *fixture) {
		for _, p := range []string{"a=1", "a=1;epoch=1"} {
			runs, err := f.term.Mark(f.ctx, event("", p), 1)
			f.ok(err)
			require.Equal(f, 1, runs)
		}
	}},
	{promise: "all of it is durable", durable: true, run: func(f *fixture) {
		f.acquire("a", "b")
		f.commit("a=1")
		f.skip("a", 2, placeIn(1, 0))
		f.ok(f.try(event("x", "a=1;epoch=1, b=5;epoch=1")))
		f.hold(event("y", "a=3;epoch=1"))
		f.reopen()
		require.Equal(f, []state{{Last: placeIn(1, 1), HeldAt: placeIn(1, 3)}, {Done: spans(placeIn(1, 5))}}, f.states("a", "b"))
		require.Equal(f, "x", f.job("a=1;epoch=1").Event)
		require.Equal(f, "a=2 until epoch 1", f.job("a=2").Event)
	}},
	{promise: "a producer that was restored from a backup goes on in a later epoch", run: restoredProducer},
}

// restoredProducer: a producer has sent 20 deposits to an account, and is restored
// from a backup that knows of 8. It raises its epoch and sends 12 deposits.
func restoredProducer(f *fixture) {
	account := lockkeys.Must("account", "7")
	deposit := func(epoch uint16, n uint64) *ordering.Event {
		return &ordering.Event{Positions: []ordering.Position{{Stream: account, Epoch: epoch, Number: n}},
			Payload: fmt.Appendf(nil, "%d/%d", epoch, n)}
	}
	var log bytes.Buffer
	var mu sync.Mutex // of what follows
	balance, epochs := 0, []ordering.Notice{}
	start := func() *ordering.Sequencer[*ordering.Event] {
		seq, err := ordering.New(f.ctx, ordering.Config[*ordering.Event]{
			Store:  f.store,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Handler: func(context.Context, ordering.Job[*ordering.Event]) error {
				mu.Lock()
				defer mu.Unlock()
				balance++
				return nil
			},
			Observer: func(n ordering.Notice) {
				mu.Lock()
				defer mu.Unlock()
				if n.Kind == ordering.EpochBegan {
					epochs = append(epochs, n)
				}
			},
		})
		f.ok(err)
		return seq
	}
	send := func(seq *ordering.Sequencer[*ordering.Event], e *ordering.Event) ordering.Outcome {
		o, _ := seq.Do(f.ctx, e) // the error is the outcome's
		return o
	}
	refusesStale := func(seq *ordering.Sequencer[*ordering.Event], n uint64) {
		f.Helper()
		o := send(seq, deposit(0, n))
		require.Equal(f, ordering.Refused, o.Result)
		var stale *ordering.StaleError
		require.ErrorAs(f, o.Err, &stale)
		require.ErrorIs(f, o.Err, ordering.ErrContradiction)
		require.EqualValues(f, 3, stale.Epoch)
		require.Equal(f, ordering.Position{Stream: account, Number: n}, stale.Position)
		require.ErrorContains(f, o.Err, fmt.Sprintf("account/7, number %d of epoch 0 is stale: epoch 3 has begun", n))
	}

	seq := start()
	for n := range uint64(20) {
		require.Equal(f, ordering.Applied, send(seq, deposit(0, n+1)).Result)
	}
	for n := range uint64(12) {
		require.Equal(f, ordering.Applied, send(seq, deposit(3, n+1)).Result, "number %d", n+1)
	}
	f.ok(seq.Close())
	require.Equal(f, 32, balance)
	require.Len(f, epochs, 1)
	require.Equal(f, ordering.Range{Stream: account, From: 21, To: ordering.MaxNumber}, epochs[0].Range)
	require.EqualValues(f, 3, epochs[0].Epoch)
	require.EqualValues(f, 1, seq.Stats().Epochs)
	require.Regexp(f, `level=WARN msg="epoch has begun" stream=account/7 epoch=3 before=0`, log.String())

	for _, pruned := range []bool{false, true} { // after restarts
		if pruned {
			f.begin(ordering.Consumer{})
			_, err := f.term.Prune(f.ctx, time.Now().Add(time.Hour), time.Time{})
			f.ok(err)
		}
		seq = start()
		require.Equal(f, ordering.Duplicate, send(seq, deposit(0, 20)).Result)
		require.Equal(f, ordering.Duplicate, send(seq, deposit(3, 1)).Result)
		refusesStale(seq, 21)
		refusesStale(seq, 1000)
		require.Equal(f, ordering.Refused, send(seq, deposit(2, 1)).Result)
		f.ok(seq.Close())
		require.EqualValues(f, 3, seq.Stats().Stale)
		require.EqualValues(f, 3, seq.Stats().Refused)
	}
	require.Equal(f, 32, balance)
	require.Contains(f, log.String(), "event refused")
}
