package storetest

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// tester is a [testing.T] or a [rapid.T].
type tester interface {
	require.TestingT
	Helper()
}

// holder uses a store in a term, and remembers the tokens that it was given. Its
// methods take streams in the text form of keys, and positions in that of
// [ordering.FormatSequenceID].
type holder struct {
	t      tester
	ctx    context.Context
	store  ordering.Store
	term   ordering.Term
	fences ordering.Fences
}

func newHolder(t tester, store ordering.Store, c ordering.Consumer) *holder {
	t.Helper()
	h := &holder{t: t, ctx: context.Background(), store: store, fences: ordering.Fences{}}
	h.begin(c)
	return h
}

// begin begins a term.
func (h *holder) begin(c ordering.Consumer) {
	h.t.Helper()
	term, err := h.store.Begin(h.ctx, c)
	h.ok(err)
	h.term = term
}

// at is a time that every store can keep exactly.
var at = time.Date(2026, 2, 3, 4, 5, 6, 789_012_000, time.UTC)

// event returns an event with the positions.
func event(id, positions string) *ordering.Event {
	list, err := ordering.ParseSequenceID(positions, lockkeys.Root())
	if err != nil {
		panic(err)
	}
	return &ordering.Event{ID: id, Positions: list, Payload: []byte("of " + id)}
}

func (h *holder) ok(err error) {
	h.t.Helper()
	require.NoError(h.t, err)
}

// acquire takes streams over.
func (h *holder) acquire(streams ...string) []ordering.StreamState {
	h.t.Helper()
	keys := make([]lockkeys.Key, len(streams))
	for i, text := range streams {
		keys[i] = lockkeys.MustParse(text)
	}
	return h.acquireKeys(keys...)
}

func (h *holder) acquireKeys(keys ...lockkeys.Key) []ordering.StreamState {
	h.t.Helper()
	states, err := h.term.Acquire(h.ctx, keys)
	h.ok(err)
	require.Len(h.t, states, len(keys))
	for i, key := range keys {
		require.Positive(h.t, states[i].Fence)
		h.fences[key] = states[i].Fence
	}
	return states
}

// states acquires streams and returns their states, without the tokens, and with nil
// instead of an empty set of numbers.
func (h *holder) states(streams ...string) []ordering.StreamState {
	h.t.Helper()
	return plain(h.acquire(streams...))
}

func plain(states []ordering.StreamState) []ordering.StreamState {
	for i := range states {
		states[i].Fence = 0
		if len(states[i].Done) == 0 {
			states[i].Done = nil
		}
	}
	return states
}

// spans is the set of numbers.
func spans(numbers ...uint64) (set ordering.Spans) {
	for _, n := range numbers {
		set = set.Add(ordering.Span{From: n, To: n})
	}
	return set
}

// fence returns the token of a stream's holder.
func (h *holder) fence(stream string) int64 {
	h.t.Helper()
	return h.lookAt([]ordering.Position{{Stream: lockkeys.MustParse(stream), Number: 1}})[0].Fence
}

// stored is the job state that a store keeps for a record.
func stored(r ordering.Record) *ordering.JobState {
	state := r.State()
	return &state
}

// record is the record of an event that was processed. Its hash is missing, as in a
// sequencer's records.
func (h *holder) record(e *ordering.Event) ordering.Record {
	r := ordering.Record{Event: e, JobState: ordering.JobState{Event: e.Name(), Positions: e.Positions,
		Status: ordering.StatusApplied, Attempts: 1, Started: at, Ended: at.Add(time.Millisecond)}}
	for _, p := range e.Positions {
		r.Fences = append(r.Fences, h.fences[p.Stream])
	}
	return r
}

// try commits an event as processed.
func (h *holder) try(e *ordering.Event) error { return h.term.Commit(h.ctx, h.record(e)) }

// commit commits events that have their positions as names.
func (h *holder) commit(positions ...string) {
	h.t.Helper()
	for _, p := range positions {
		h.ok(h.try(event("", p)))
	}
}

// commitHeld commits an event of which the store holds a copy.
func (h *holder) commitHeld(e *ordering.Event) {
	h.t.Helper()
	r := h.record(e)
	r.Held = true
	h.ok(h.term.Commit(h.ctx, r))
}

func (h *holder) trySkip(stream string, from, to uint64) error {
	key := lockkeys.MustParse(stream)
	return h.term.Skip(h.ctx, ordering.Skipped{Stream: key, From: from, To: to, Fence: h.fences[key], Reason: "never sent", Time: at})
}

func (h *holder) skip(stream string, from, to uint64) {
	h.t.Helper()
	h.ok(h.trySkip(stream, from, to))
}

func (h *holder) tryHold(events ...*ordering.Event) error {
	return h.term.Hold(h.ctx, events, h.fences)
}

// hold holds events. It first acquires those of their streams that are not acquired
// yet.
func (h *holder) hold(events ...*ordering.Event) {
	h.t.Helper()
	for _, e := range events {
		h.acquireNew(e.Positions)
	}
	h.ok(h.tryHold(events...))
}

// held returns the names of the held events of a stream.
func (h *holder) held(stream string, from uint64, limit int) (names []string) {
	h.t.Helper()
	events, err := h.term.Held(h.ctx, lockkeys.MustParse(stream), from, limit, math.MaxInt64)
	h.ok(err)
	for _, e := range events {
		names = append(names, e.Name())
	}
	return names
}

// acquireNew acquires those of the streams that are not acquired yet.
func (h *holder) acquireNew(positions []ordering.Position) {
	h.t.Helper()
	for _, p := range positions {
		if h.fences[p.Stream] == 0 {
			h.acquireKeys(p.Stream)
		}
	}
}

// closing returns positions as the streams of a parking.
func closing(positions []ordering.Position) (streams []ordering.ParkedStream) {
	for _, p := range positions {
		streams = append(streams, ordering.ParkedStream{Stream: p.Stream, Epoch: p.Epoch, Number: p.Number})
	}
	return streams
}

func streamsOf(p ordering.Parking) (positions []ordering.Position) {
	for _, s := range p.Streams {
		positions = append(positions, s.Position())
	}
	return positions
}

func (h *holder) tryPark(parkings ...ordering.Parking) error {
	return h.term.Park(h.ctx, parkings, h.fences)
}

// park parks. It first acquires those of the streams that are not acquired yet.
func (h *holder) park(p ordering.Parking) {
	h.t.Helper()
	h.acquireNew(streamsOf(p))
	h.ok(h.tryPark(p))
}

func (h *holder) tryUnpark(ids ...string) error { return h.term.Unpark(h.ctx, ids, h.fences) }

func (h *holder) unpark(id string) {
	h.t.Helper()
	h.ok(h.tryUnpark(id))
}

// parked lists parkings, with nil instead of an empty list of events, and without the
// numbers of events that wait.
func (h *holder) parked(ids ...string) []ordering.Parking {
	h.t.Helper()
	list := h.parkedAndWaiting(ids...)
	for i := range list {
		for j := range list[i].Streams {
			list[i].Streams[j].Waiting = 0
		}
	}
	return list
}

// parkedAndWaiting lists parkings, with nil instead of an empty list of events.
func (h *holder) parkedAndWaiting(ids ...string) []ordering.Parking {
	h.t.Helper()
	list, err := h.term.Parked(h.ctx, ids...)
	h.ok(err)
	for i := range list {
		list[i].Since = list[i].Since.UTC()
		if len(list[i].Events) == 0 {
			list[i].Events = nil
		}
		for j := range list[i].Events {
			list[i].Events[j].Started = list[i].Events[j].Started.UTC()
		}
	}
	return list
}

// listed returns parkings as a store lists them.
func listed(parkings ...ordering.Parking) []ordering.Parking {
	for i := range parkings {
		parkings[i].Events = slices.Clone(parkings[i].Events)
		for j, e := range parkings[i].Events {
			parkings[i].Events[j] = e.AsOutline()
		}
	}
	return parkings
}

// backlog lists the streams with a backlog.
func (h *holder) backlog() (streams []string) {
	h.t.Helper()
	keys, err := h.term.Backlog(h.ctx)
	h.ok(err)
	for _, key := range keys {
		streams = append(streams, key.String())
	}
	return streams
}

// look returns what is known of the numbers.
func (h *holder) look(positions string) []ordering.NumberState {
	h.t.Helper()
	return h.lookAt(event("", positions).Positions)
}

func (h *holder) lookAt(positions []ordering.Position) []ordering.NumberState {
	h.t.Helper()
	states, err := h.term.Look(h.ctx, positions)
	h.ok(err)
	require.Len(h.t, states, len(positions))
	for i := range states {
		if job := states[i].Job; job != nil {
			job.Started, job.Ended = job.Started.UTC(), job.Ended.UTC()
		}
	}
	return states
}

// job returns the job state of the event that has the first of the positions.
func (h *holder) job(positions string) ordering.JobState {
	h.t.Helper()
	return h.jobAt(event("", positions).Positions)
}

func (h *holder) jobAt(positions []ordering.Position) ordering.JobState {
	h.t.Helper()
	job := h.lookAt(positions)[0].Job
	require.NotNil(h.t, job)
	return *job
}

// noJob checks that none of the numbers has a job state.
func (h *holder) noJob(positions string) {
	h.t.Helper()
	for _, state := range h.look(positions) {
		require.Nil(h.t, state.Job)
	}
}
