package ordering

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// Places are ordered as positions are, and each is that of one position.
func TestPlaces(t *testing.T) {
	position := rapid.Custom(func(t *rapid.T) Position {
		number := rapid.OneOf(rapid.Uint64Range(1, 3), rapid.Uint64Range(MaxNumber-2, MaxNumber), rapid.Uint64Range(1, MaxNumber))
		return Position{Stream: key("a"), Epoch: rapid.Uint16().Draw(t, "epoch"), Number: number.Draw(t, "number")}
	})
	rapid.Check(t, func(t *rapid.T) {
		p, q := position.Draw(t, "p"), position.Draw(t, "q")
		require.Equal(t, p, PositionAt(p.Stream, p.Place()))
		before := p.Epoch < q.Epoch || p.Epoch == q.Epoch && p.Number < q.Number
		require.Equal(t, before, p.Place() < q.Place())
		place := rapid.Uint64Range(1, MaxPlace).Draw(t, "place")
		at := PositionAt(key("a"), place)
		require.Equal(t, place, at.Place())
		require.NoError(t, at.check())
	})
	assert.EqualValues(t, 7, Position{Number: 7}.Place())
	assert.EqualValues(t, 200000000000005, Position{Epoch: 2, Number: 5}.Place(), "people can read it")
	assert.EqualValues(t, MaxPlace, Position{Epoch: math.MaxUint16, Number: MaxNumber}.Place())
	assert.Less(t, uint64(MaxPlace), uint64(math.MaxInt64))
	assert.Equal(t, Position{}, PositionAt(lockkeys.Root(), 0))
	assert.Equal(t, Position{Epoch: 1, Number: 1}, PositionAt(lockkeys.Root(), Position{Number: MaxNumber}.Place()+1))
}

func TestRangesShowTheirEpochs(t *testing.T) {
	for text, r := range map[string]Range{
		"a: 5":                       {Stream: key("a"), From: 5, To: 5},
		"a: 5 to 7":                  {Stream: key("a"), From: 5, To: 7},
		"a: 5 of epoch 2":            {Stream: key("a"), Epoch: 2, From: 5, To: 5},
		"a: 5 to 7 of epoch 2":       {Stream: key("a"), Epoch: 2, From: 5, To: 7},
		"a: 5 to the end of epoch 2": {Stream: key("a"), Epoch: 2, From: 5, To: MaxNumber},
		"a: 1 to the end of epoch 0": RangeAt(key("a"), 1, Position{Epoch: 3, Number: 4}.Place()),
		"a: 100000000000000":         {Stream: key("a"), From: MaxNumber, To: MaxNumber},
		"a: 3 to 4 of epoch 65535":   RangeAt(key("a"), MaxPlace-MaxNumber+3, MaxPlace-MaxNumber+4),
	} {
		assert.Equal(t, text, r.String())
	}
	r := Range{Stream: key("a"), Epoch: 2, From: 5, To: math.MaxUint64}
	from, to := r.Places()
	assert.Equal(t, []uint64{200000000000005, 300000000000000}, []uint64{from, to}, "no further than its epoch")
	from, to = Range{From: math.MaxUint64, To: math.MaxUint64}.Places()
	assert.Greater(t, from, to, "none at all")
	assert.True(t, r.Has(Position{Stream: key("a"), Epoch: 2, Number: 6}))
	for _, p := range []Position{{Stream: key("b"), Epoch: 2, Number: 6}, {Stream: key("a"), Number: 6}, {Stream: key("a"), Epoch: 2, Number: 4}} {
		assert.False(t, r.Has(p), p)
	}
}

func TestEpochsInJSON(t *testing.T) {
	text, err := json.Marshal(ev("x", "a=1, b=2;epoch=3").Positions)
	require.NoError(t, err)
	assert.JSONEq(t, `[{"stream":"a","number":1},{"stream":"b","epoch":3,"number":2}]`, string(text))
	text, err = json.Marshal(Range{Stream: key("a"), From: 1, To: 2})
	require.NoError(t, err)
	assert.JSONEq(t, `{"stream":"a","from":1,"to":2}`, string(text))
}

// What tells events apart has the epoch in it.
func TestEpochsTellEventsApart(t *testing.T) {
	a, b := ev("x", "a=1, b=1"), ev("x", "a=1, b=1;epoch=1")
	assert.False(t, a.IsCopy(b))
	assert.False(t, SameNumbers(a.Positions, b.Positions))
	assert.False(t, SameNumbers(b.Positions, ev("x", "b=1, a=1").Positions))
	assert.True(t, SameNumbers(b.Positions, ev("x", "b=1;epoch=1, a=1").Positions))
	assert.NotEqual(t, MarkOf(a.Positions, "x"), MarkOf(b.Positions, "x"))
	assert.NotEqual(t, (&Event{Positions: a.Positions}).Name(), (&Event{Positions: b.Positions}).Name())
}

// The first event of a later epoch runs behind all that has come of the one before,
// at once; later ones of that are refused, told and counted.
func TestALaterEpochBegins(t *testing.T) {
	story(t, Config[*Event]{GapTimeout: time.Minute, MaxSkip: 1}, func(t *testing.T, r *rig) {
		r.offer(ev("a1", "a=1, b=1"), ev("a2", "a=2"), ev("x1", "a=1;epoch=2, b=2"), ev("x2", "a=2;epoch=2"))
		r.sleep(time.Millisecond)
		assert.Equal(t, []string{"a1", "a2", "x1", "x2"}, r.ran(), "b goes on in its own epoch")
		r.offer(ev("a3", "a=3, b=3"), ev("a2", "a=2"), ev("y", "a=9;epoch=1"))
		r.sleep(time.Millisecond)
		assert.Equal(t, []Result{Refused}, r.outcome("a3"))
		assert.Equal(t, []Result{Refused}, r.outcome("y"))
		assert.Equal(t, []Result{Applied, Duplicate}, r.outcome("a2"))
		stats := r.seq.Stats()
		assert.EqualValues(t, []uint64{1, 2, 2, 0}, []uint64{stats.Epochs, stats.Stale, stats.Refused, stats.Conflicts})
		assert.Contains(t, r.kinds(), EpochBegan)
		assert.NotContains(t, r.kinds(), GapOpened)

		t.Log("a gap in the new epoch is one, and is asked for in it")
		r.offer(ev("x4", "a=4;epoch=2"))
		r.sleep(time.Millisecond)
		infos := r.seq.Snapshot(9)
		require.Len(t, infos, 1)
		assert.Equal(t, ev("", "a=3;epoch=2").Positions[0], infos[0].Next)
		r.offer(ev("x3", "a=3;epoch=2"))
		r.sleep(time.Millisecond)
		assert.Equal(t, []string{"x3", "x4"}, r.ran()[4:])
	})
}

// What is missing of an epoch is asked for there, and nothing is asked for of one
// that is over.
func TestReplaysAreOfOneEpoch(t *testing.T) {
	lost := &archive{events: []*Event{ev("a1", "a=1"), ev("x1", "a=1;epoch=1"), ev("x2", "a=2;epoch=1")}}
	story(t, Config[*Event]{GapTimeout: time.Second, Replayer: lost}, func(t *testing.T, r *rig) {
		r.offer(ev("x3", "a=3;epoch=1"))
		r.sleep(time.Millisecond)
		r.offer(ev("a2", "a=2"))
		r.sleep(time.Minute)
		assert.Equal(t, []string{"x1", "x2", "x3"}, r.ran())
		assert.Equal(t, []Result{Refused}, r.outcome("a2"), "the epoch was over")
		r.offer(ev("b2", "b=2"), ev("y2", "b=2;epoch=1"))
		r.sleep(time.Minute)
		assert.Equal(t, []Result{Held}, r.outcome("y2"), "behind what could not be had")
		assert.Equal(t, []Range{{Stream: key("a"), Epoch: 1, From: 1, To: 2}, {Stream: key("b"), From: 1, To: 1}}, lost.requests())
		parked := r.parked()
		require.Len(t, parked, 1)
		assert.Equal(t, Range{Stream: key("b"), From: 1, To: 1}, parked[0].Gap)
		require.NoError(t, r.seq.Skip(t.Context(), key("b")))
		r.sleep(time.Minute)
		parked = r.parked()
		require.Len(t, parked, 1)
		assert.Equal(t, Range{Stream: key("b"), Epoch: 1, From: 1, To: 1}, parked[0].Gap)
		assert.Equal(t, "b=1;epoch=1", parked[0].Streams[0].String())
		require.ErrorContains(t, r.seq.SkipTo(t.Context(), Position{Stream: key("b"), Epoch: 1}), "b=0;epoch=1")
		require.NoError(t, r.seq.SkipTo(t.Context(), Position{Stream: key("b"), Epoch: 2, Number: 1}))
		r.sleep(time.Minute)
		assert.Equal(t, []string{"b2", "y2"}, r.ran()[3:], "what is held is not skipped")
		r.offer(ev("z1", "b=1;epoch=2"), ev("z2", "b=2;epoch=2"))
		r.sleep(time.Minute)
		assert.Equal(t, []Result{Refused}, r.outcome("z1"))
		assert.Equal(t, []Result{Applied}, r.outcome("z2"))
	})
}

// An event that fails in the epoch before holds up the next one.
func TestAFailureHoldsUpALaterEpoch(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.failing("a1", dispatcher.Permanent(assert.AnError))
		r.offer(ev("a1", "a=1"), ev("x1", "a=1;epoch=1"))
		r.sleep(time.Minute)
		assert.Equal(t, []Result{Held}, r.outcome("x1"))
		r.failing("a1", nil)
		require.NoError(t, r.seq.Resume(t.Context(), key("a")))
		r.sleep(time.Minute)
		assert.Equal(t, []string{"a1", "x1"}, r.ran())
	})
}

// An event in its turn, of any epoch, allocates nothing for that.
func TestPlacesAllocateNothing(t *testing.T) {
	p := Position{Stream: key("a"), Epoch: 3, Number: 4}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if PositionAt(p.Stream, p.Place()) != p {
			panic("another")
		}
	}))
}
