package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
)

func command(id string) *ordering.Event {
	return &ordering.Event{ID: id, Payload: []byte("of " + id)}
}

func (h *holder) lookCommands(ids ...string) []*ordering.JobState {
	h.t.Helper()
	states, err := h.term.LookCommands(h.ctx, ids)
	h.ok(err)
	require.Len(h.t, states, len(ids))
	for _, s := range states {
		if s != nil {
			s.Started, s.Ended = s.Started.UTC(), s.Ended.UTC()
		}
	}
	return states
}

var commandTests = []test{
	{promise: "a command is known by its ID, with what came of it", run: func(f *fixture) {
		r := f.record(command("x"))
		r.Attempts, r.Error, r.Reply = 3, "the second attempt", []byte("answer \x00\xff")
		f.ok(f.term.Commit(f.ctx, r))
		other := f.record(command("y"))
		other.Status, other.By, other.Reason = ordering.StatusDeadLettered, "ann", "not wanted any more"
		f.ok(f.term.Commit(f.ctx, other))
		require.Equal(f, []*ordering.JobState{stored(other), nil, stored(r), stored(other)}, f.lookCommands("y", "none", "x", "y"))
		require.Empty(f, f.lookCommands())
		require.Equal(f, []*ordering.JobState{nil}, f.lookCommands(""))
	}},
	{promise: "it is done once", run: func(f *fixture) {
		r := f.record(command("x"))
		f.ok(f.term.Commit(f.ctx, r))
		again := f.record(command("x"))
		again.Reply = []byte("another")
		require.ErrorIs(f, f.term.Commit(f.ctx, again), ordering.ErrDuplicate)
		require.ErrorContains(f, f.term.Commit(f.ctx, again), `"x"`)
		require.Equal(f, []*ordering.JobState{stored(r)}, f.lookCommands("x"))
	}},
	{promise: "an event with numbers and the same ID is another one", run: func(f *fixture) {
		f.acquire("a")
		f.ok(f.try(event("x", "a=1")))
		require.Equal(f, []*ordering.JobState{nil}, f.lookCommands("x"))
		f.ok(f.try(command("x")))
		f.ok(f.try(event("x", "a=2")))
	}},
	{promise: "a reply may have MaxReply bytes, of events with numbers as well", run: func(f *fixture) {
		f.acquire("a")
		for i, e := range []*ordering.Event{command("x"), event("y", "a=1"), event("z", "a=3")} {
			r := f.record(e)
			r.Reply = bytes.Repeat([]byte{0, 1, 0xff}, ordering.MaxReply/3+1)
			err := f.term.Commit(f.ctx, r)
			require.ErrorIs(f, err, ordering.ErrReply)
			require.NotErrorAs(f, err, new(*ordering.StoreError))
			r.Reply = r.Reply[:ordering.MaxReply]
			f.ok(f.term.Commit(f.ctx, r))
			if i == 0 {
				require.Equal(f, r.Reply, f.lookCommands("x")[0].Reply)
			} else {
				require.Equal(f, r.Reply, f.jobAt(e.Positions).Reply)
			}
		}
		require.Equal(f, []state{{Last: 1, Done: spans(3)}}, f.states("a"))
	}},
	{promise: "commands are forgotten in a time of their own", run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1")
		for i := range 3 {
			r := f.record(command(fmt.Sprint("c", i)))
			r.Ended = at.Add(time.Duration(i) * time.Second)
			f.ok(f.term.Commit(f.ctx, r))
		}
		n, err := f.term.Prune(f.ctx, at.Add(time.Hour), at.Add(time.Second))
		f.ok(err)
		require.EqualValues(f, 2, n)
		f.noJob("a=1")
		known := f.lookCommands("c0", "c1", "c2")
		require.Nil(f, known[0])
		require.NotNil(f, known[1])
		require.NotNil(f, known[2])
		f.ok(f.try(command("c0")))
		f.commit("a=2")
		n, err = f.term.Prune(f.ctx, time.Time{}, at.Add(time.Hour))
		f.ok(err)
		require.EqualValues(f, 3, n)
		require.Equal(f, "a=2", f.job("a=2").Event)
	}},
	{promise: "neither held nor parked, and without an ID nothing", run: func(f *fixture) {
		f.acquire("a")
		require.ErrorIs(f, f.tryHold(command("x")), ordering.ErrNoPosition)
		require.ErrorIs(f, f.term.Forget(f.ctx, command("x"), f.fences), ordering.ErrNoPosition)
		p := failure("p", at, event("y", "a=1"))
		p.Events[0].Event = command("x")
		require.ErrorIs(f, f.tryPark(p), ordering.ErrNoPosition)
		require.ErrorIs(f, f.try(&ordering.Event{}), ordering.ErrNoPosition)
		require.Empty(f, f.parked())
		require.Equal(f, []state{{}}, f.states("a"))
	}},
	{promise: "of twins one is committed", run: func(f *fixture) {
		const twins, commands = 6, 8
		var done atomic.Int64
		f.ok(inParallel(twins*commands, func(i int) error {
			err := f.try(command(fmt.Sprint("c", i/twins)))
			if err == nil {
				done.Add(1)
			} else if !errors.Is(err, ordering.ErrDuplicate) {
				return err
			}
			_, err = f.term.LookCommands(f.ctx, []string{fmt.Sprint("c", i%commands), fmt.Sprint("c", i/twins)})
			return err
		}))
		require.EqualValues(f, commands, done.Load())
	}},
	{promise: "they are there after a restart", durable: true, run: func(f *fixture) {
		r := f.record(command("x"))
		r.Reply = []byte("answer")
		f.ok(f.term.Commit(f.ctx, r))
		f.reopen()
		require.Equal(f, []*ordering.JobState{stored(r)}, f.lookCommands("x"))
		require.ErrorIs(f, f.try(command("x")), ordering.ErrDuplicate)
	}},
}
