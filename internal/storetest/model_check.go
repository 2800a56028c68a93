package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// checkModel makes random calls of a store and of the model. All runs share the same
// data, each with streams of its own.
func checkModel(t *testing.T, k Kind) {
	open := k.New(t)
	store := open()
	defer func() { _ = store.Close() }()
	term, err := store.Begin(t.Context(), ordering.Consumer{})
	require.NoError(t, err)
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		c := newCompared(t, store, term, fmt.Sprintf("run%d", runs))
		actions := map[string]func(*rapid.T){
			"":         c.compare,
			"acquire":  c.acquireSome,
			"commit":   c.commitOne,
			"skip":     c.skipSome,
			"hold":     c.holdSome,
			"forget":   c.forgetOne,
			"park":     c.parkSome,
			"unpark":   c.unparkOne,
			"prune":    c.pruneSome,
			"outdated": c.commitOutdated,
		}
		if k.Durable {
			actions["restart"] = func(t *rapid.T) {
				c.ok(store.Close())
				store = open()
				c.store = store
				c.begin(ordering.Consumer{})
				term = c.term
				c.acquireAll()
			}
		}
		t.Repeat(actions)
		c.acquireAll()
	})
}

// compared is a store beside its model.
type compared struct {
	*holder
	name    string // of the run; all names in it begin with that
	model   *model
	streams []lockkeys.Key
	events  []*ordering.Event // all there are; some have numbers in common
	records []ordering.Record // with tokens of any age
}

const lastNumber = 9 // of each epoch of a stream, where it ends

func newCompared(t *rapid.T, store ordering.Store, term ordering.Term, name string) *compared {
	h := &holder{t: t, ctx: context.Background(), store: store, term: term, fences: ordering.Fences{}}
	c := &compared{holder: h, name: name, model: newModel()}
	for _, p := range c.parked() { // by a run that failed
		c.acquireNew(streamsOf(p))
		c.unpark(p.ID)
	}
	clear(c.fences)
	_, err := term.Prune(c.ctx, at.Add(time.Hour), time.Time{})
	c.ok(err)
	for i := range 4 {
		c.streams = append(c.streams, lockkeys.Must(name, string(rune('a'+i))))
	}
	c.events = make([]*ordering.Event, 16)
	for i := range c.events {
		e := &ordering.Event{Positions: c.drawPositions(t)}
		if i > 0 && rapid.IntRange(0, 3).Draw(t, "numbers of another") == 0 {
			e.Positions = c.events[i-1].Positions
		}
		if i%4 > 0 { // a few IDs for all
			e.ID = fmt.Sprintf("%s/e%d", name, i%3)
		}
		if i%2 > 0 {
			e.Payload = []byte{byte(i % 3)}
		}
		c.events[i] = e
	}
	c.acquireAll()
	return c
}

func (c *compared) drawPositions(t *rapid.T) (positions []ordering.Position) {
	for _, key := range drawSome(t, c.streams, 1, 3) {
		n := rapid.Uint64Range(1, lastNumber).Draw(t, "number")
		positions = append(positions, ordering.Position{Stream: key, Epoch: drawEpoch(t), Number: n, End: n == lastNumber})
	}
	return positions
}

// epochs are those that there are.
var epochs = []uint16{0, 2}

func drawEpoch(t *rapid.T) uint16 { return rapid.SampledFrom([]uint16{0, 0, 0, 2}).Draw(t, "epoch") }

func drawSome[E any](t *rapid.T, list []E, least, most int) []E {
	n := rapid.IntRange(least, most).Draw(t, "count")
	return rapid.Permutation(list).Draw(t, "of")[:n]
}

func drawTime(t *rapid.T) time.Time {
	return at.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
}

func (c *compared) acquireAll() {
	c.acquireAndCompare(c.streams)
}

func (c *compared) acquireSome(t *rapid.T) {
	c.acquireAndCompare(drawSome(t, c.streams, 0, len(c.streams)))
}

func (c *compared) acquireAndCompare(keys []lockkeys.Key) {
	want := make([]state, len(keys))
	for i, key := range keys {
		want[i] = c.model.state(key)
	}
	require.Equal(c.t, want, plain(c.acquireKeys(keys...)))
}

func (c *compared) commitOne(t *rapid.T) {
	r := c.record(rapid.SampledFrom(c.events).Draw(t, "event"))
	r.Attempts, r.Ended = rapid.IntRange(0, 3).Draw(t, "attempts"), drawTime(t)
	r.Held = c.model.heldAs(r.Event) >= 0
	c.records = append(c.records, r)
	err := c.term.Commit(c.ctx, r)
	if c.model.isDuplicate(r.Event) {
		require.ErrorIs(t, err, ordering.ErrDuplicate)
		return
	}
	c.ok(err)
	c.model.commit(r)
}

// commitOutdated commits a record again, perhaps with tokens that were good
// once.
func (c *compared) commitOutdated(t *rapid.T) {
	if len(c.records) == 0 {
		t.Skip("none yet")
	}
	r := rapid.SampledFrom(c.records).Draw(t, "record")
	r.Held = c.model.heldAs(r.Event) >= 0
	fenced, duplicate := !slices.Equal(r.Fences, c.record(r.Event).Fences), c.model.isDuplicate(r.Event)
	switch err := c.term.Commit(c.ctx, r); {
	case fenced && duplicate:
		require.Error(t, err)
	case fenced:
		require.ErrorIs(t, err, ordering.ErrFenced)
	case duplicate:
		require.ErrorIs(t, err, ordering.ErrDuplicate)
	default:
		c.ok(err)
		c.model.commit(r)
	}
}

func (c *compared) skipSome(t *rapid.T) {
	s := ordering.Skipped{Stream: rapid.SampledFrom(c.streams).Draw(t, "stream"), Reason: "drawn", Time: drawTime(t)}
	r := ordering.Range{Epoch: drawEpoch(t), From: rapid.Uint64Range(1, lastNumber).Draw(t, "from")}
	r.To = rapid.Uint64Range(r.From, min(r.From+3, lastNumber)).Draw(t, "to")
	s.From, s.To = r.Places()
	if rapid.IntRange(0, 5).Draw(t, "to the next epoch") == 0 && r.Epoch == 0 {
		s.To = ordering.Position{Epoch: 2}.Place()
	}
	s.Fence = c.fences[s.Stream]
	c.ok(c.term.Skip(c.ctx, s))
	c.model.skip(s)
}

func (c *compared) holdSome(t *rapid.T) {
	events := drawSome(t, c.events, 0, 4)
	for _, e := range events {
		c.acquireNew(e.Positions)
	}
	err := c.tryHold(events...)
	if c.model.hold(events) {
		c.ok(err)
	} else {
		require.ErrorAs(t, err, new(*ordering.ConflictError))
	}
}

func (c *compared) forgetOne(t *rapid.T) {
	e := rapid.SampledFrom(c.events).Draw(t, "event")
	c.acquireNew(e.Positions)
	c.ok(c.term.Forget(c.ctx, e, c.fences))
	c.model.forget(e)
}

func (c *compared) parkSome(t *rapid.T) {
	p := ordering.Parking{ID: c.drawID(t), Reason: rapid.SampledFrom([]ordering.Reason{ordering.Failure, ordering.Gap, ordering.Waiting, ordering.Contradiction}).Draw(t, "reason"),
		Streams: closing(c.drawPositions(t)), Error: rapid.SampledFrom([]string{"", "failed"}).Draw(t, "error"), Since: drawTime(t)}
	for i := range p.Streams {
		p.Streams[i].Bound = rapid.SampledFrom([]string{"", "e1", "e2"}).Draw(t, "bound")
	}
	slices.SortFunc(p.Streams, func(a, b ordering.ParkedStream) int { return a.Stream.Compare(b.Stream) })
	if p.Reason == ordering.Gap {
		p.Gap = ordering.Range{Stream: p.Streams[0].Stream, Epoch: p.Streams[0].Epoch, From: p.Streams[0].Number, To: lastNumber}
	}
	for _, e := range drawSome(t, c.events, 0, 2) {
		p.Events = append(p.Events, ordering.HeldEvent{Event: e, Attempts: rapid.IntRange(0, 3).Draw(t, "attempts"), Started: drawTime(t)})
	}
	c.park(p)
	c.model.park(p)
}

func (c *compared) drawID(t *rapid.T) string {
	return fmt.Sprintf("%s/p%d", c.name, rapid.IntRange(1, 3).Draw(t, "parking"))
}

func (c *compared) unparkOne(t *rapid.T) {
	id := c.drawID(t)
	c.unpark(id)
	delete(c.model.parkings, id)
}

func (c *compared) pruneSome(t *rapid.T) {
	before := drawTime(t)
	require.Equal(t, c.model.prune(before), c.prune(before))
}

// compare compares all that can be read without acquiring.
func (c *compared) compare(t *rapid.T) {
	require.Equal(t, c.model.parked(), c.parkedAndWaiting())
	require.ElementsMatch(t, c.model.backlog(), slices.DeleteFunc(c.backlog(), func(stream string) bool {
		return !strings.HasPrefix(stream, c.name+"/")
	}))
	key := rapid.SampledFrom(c.streams).Draw(t, "stream")
	from := ordering.Position{Epoch: drawEpoch(t), Number: rapid.Uint64Range(0, lastNumber).Draw(t, "from")}.Place()
	limit := rapid.IntRange(1, 4).Draw(t, "limit")
	held, err := c.term.Held(c.ctx, key, from, limit, 1<<20)
	c.ok(err)
	for i := range held {
		held[i].Started = held[i].Started.UTC()
	}
	if len(held) == 0 {
		held = nil
	}
	want := c.model.heldOf(key, from, limit)
	if len(want) == 0 {
		want = nil
	}
	require.Equal(t, want, held)
	var positions []ordering.Position
	for _, key := range c.streams {
		for _, epoch := range epochs {
			for n := range uint64(lastNumber) {
				positions = append(positions, ordering.Position{Stream: key, Epoch: epoch, Number: n + 1})
			}
		}
	}
	known := c.lookAt(positions)
	for i := range known {
		known[i].Fence = 0
		require.Equal(t, c.model.state(positions[i].Stream).Last, known[i].Last)
		known[i].Last = 0
	}
	require.Equal(t, c.model.look(positions), known)
}
