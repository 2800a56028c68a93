package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/outbox"
)

func TestEnqueueNumbersEachStream(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		given := &ordering.Event{
			ID: "transfer", Type: "Transfer", Payload: []byte{0, 1, 0xff}, Headers: map[string]string{"tenant": "7"},
			Positions:     []ordering.Position{{Stream: lockkeys.MustParse("b"), End: true}},
			CorrelationID: "c", CausationID: "d", Time: time.Date(2025, 6, 1, 12, 0, 0, 123456000, time.UTC),
		}
		put(t, box, db, "a")
		var got *ordering.Event
		inTx(t, db, func(tx *sql.Tx) {
			var err error
			got, err = box.Enqueue(t.Context(), tx, given, keys("a")...)
			require.NoError(t, err)
		})
		want := *given
		want.Positions = []ordering.Position{{Stream: lockkeys.MustParse("b"), Number: 1, End: true}, {Stream: lockkeys.MustParse("a"), Number: 2}}
		assert.Equal(t, &want, got)
		assert.Zero(t, given.Positions[0].Number, "the event given is not changed")

		a, err := box.Fetch(t.Context(), ordering.Range{Stream: lockkeys.MustParse("b"), From: 1, To: 1})
		require.NoError(t, err)
		assert.Equal(t, []*ordering.Event{&want}, a.Events)

		named := put(t, box, db, "a")
		assert.Len(t, named.ID, 26)
		assert.WithinDuration(t, time.Now(), named.Time, time.Minute)
	})
}

func TestEnqueueRefuses(t *testing.T) {
	at := func(p ordering.Position) *ordering.Event { return &ordering.Event{Positions: []ordering.Position{p}} }
	a := lockkeys.MustParse("a")
	cases := map[string]struct {
		event   *ordering.Event
		streams []lockkeys.Key
		want    error
	}{
		"no event":         {nil, keys("a"), outbox.ErrNoEvent},
		"no stream":        {&ordering.Event{}, nil, ordering.ErrNoPosition},
		"numbered":         {at(ordering.Position{Stream: a, Number: 3}), nil, outbox.ErrNumbered},
		"repeated":         {at(ordering.Position{Stream: a}), keys("a"), ordering.ErrRepeatedStream},
		"long ID":          {&ordering.Event{ID: strings.Repeat("x", 2000)}, keys("a"), ordering.ErrLongID},
		"too many streams": {&ordering.Event{}, make([]lockkeys.Key, ordering.MaxPositions+1), ordering.ErrTooManyPositions},
		"ID with NUL":      {&ordering.Event{ID: "a\x00"}, keys("a"), ordering.ErrText},
		"ID not UTF-8":     {&ordering.Event{ID: "\xff"}, keys("a"), ordering.ErrText},
		"header not UTF-8": {&ordering.Event{Headers: map[string]string{"x": "\xff"}}, keys("a"), ordering.ErrText},
		"duplicate ID":     {&ordering.Event{ID: "first"}, keys("a"), outbox.ErrDuplicateID},
		"other event":      {&ordering.Event{ID: "first"}, keys("a", "new"), outbox.ErrOtherEvent},
		"ended":            {&ordering.Event{}, keys("a", "over", "new"), outbox.ErrEnded},
	}
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		inTx(t, db, func(tx *sql.Tx) {
			_, err := box.Enqueue(t.Context(), tx, &ordering.Event{ID: "first"}, keys("a")...)
			require.NoError(t, err)
			_, err = box.Enqueue(t.Context(), tx, at(ordering.Position{Stream: lockkeys.MustParse("over"), End: true}))
			require.NoError(t, err)
		})
		_, err := box.Enqueue(t.Context(), nil, &ordering.Event{}, keys("a")...)
		require.ErrorIs(t, err, outbox.ErrNoTx)
		inTx(t, db, func(tx *sql.Tx) { // it goes on after each of them
			for name, c := range cases {
				_, err := box.Enqueue(t.Context(), tx, c.event, c.streams...)
				require.ErrorIs(t, err, c.want, name)
			}
			e, err := box.Enqueue(t.Context(), tx, &ordering.Event{}, keys("a", "new")...)
			require.NoError(t, err)
			assert.Equal(t, "a=2, new=1", ordering.FormatSequenceID(e.Positions), "nothing was half done")
		})
	})
}

// TestEnqueueChecks: what Config.Check refuses leaves no trace, and what it is
// given lacks its numbers only.
func TestEnqueueChecks(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var checked []*ordering.Event
		box, db := p.box(t, outbox.Config{Check: func(e *ordering.Event) error {
			checked = append(checked, e)
			assert.NoError(t, e.Validate())
			assert.NotEmpty(t, e.ID)
			assert.NotZero(t, e.Time)
			if len(e.Positions) > 1 {
				return assert.AnError
			}
			return nil
		}})
		inTx(t, db, func(tx *sql.Tx) {
			for _, streams := range [][]string{{"a"}, {"a", "b"}, {"b"}, {"new", "a"}, {"a"}} {
				e, err := box.Enqueue(t.Context(), tx, &ordering.Event{}, keys(streams...)...)
				if len(streams) > 1 {
					require.ErrorIs(t, err, assert.AnError)
					require.ErrorContains(t, err, "Config.Check")
					assert.Nil(t, e)
				} else {
					require.NoError(t, err)
				}
			}
			_, err := box.Enqueue(t.Context(), tx, nil, keys("a")...)
			require.ErrorIs(t, err, outbox.ErrNoEvent)
		})
		assert.Len(t, checked, 5, "what is not valid is not asked about")
		stats, err := box.Stats(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 3, stats.Unsent)
		for stream, last := range map[string]uint64{"a": 2, "b": 1} {
			assert.Equal(t, last+1, put(t, box, db, stream).Positions[0].Number, stream)
		}
		_, err = box.Fetch(t.Context(), ordering.Range{Stream: lockkeys.MustParse("new"), From: 1, To: 1})
		require.ErrorIs(t, err, replay.ErrNotAssigned)
	})
}

func TestEnqueueWithEndedContext(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = box.Enqueue(ctx, tx, &ordering.Event{}, keys("a")...)
		require.ErrorIs(t, err, context.Canceled)
		_ = tx.Commit()
		assert.Equal(t, "a=1", ordering.FormatSequenceID(put(t, box, db, "a").Positions))
	})
}

// The transaction need not be of the sql.DB that the outbox has: producers on
// SQLite may have one to write and one to read.
func TestEnqueueInATransactionOfAnotherDB(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		other := p.open(t)
		put(t, box, db, "a")
		put(t, box, other, "a")
		inTx(t, other, func(tx *sql.Tx) {
			_, err := box.Enqueue(t.Context(), tx, &ordering.Event{ID: "twice"}, keys("a", "b")...)
			require.NoError(t, err)
			_, err = box.Enqueue(t.Context(), tx, &ordering.Event{ID: "twice"}, keys("a", "b")...)
			require.ErrorIs(t, err, outbox.ErrDuplicateID)
		})
		require.Equal(t, uint64(4), put(t, box, db, "a").Positions[0].Number)
		require.Equal(t, uint64(2), put(t, box, other, "b").Positions[0].Number)
	})
}

func TestEnqueueManyStreams(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		streams := make([]string, ordering.MaxPositions)
		for i := range streams {
			streams[i] = fmt.Sprintf("a/%d", i)
		}
		put(t, box, db, "a/7")
		e := put(t, box, db, streams...)
		assert.Equal(t, uint64(2), e.Positions[7].Number)
		assert.Equal(t, uint64(1), e.Positions[4095].Number)
	})
}

// Above READ COMMITTED a producer that comes second gets an error, and there is
// no hole either.
func TestRepeatableRead(t *testing.T) {
	box, db := newPostgres(t).box(t, outbox.Config{})
	put(t, box, db, "a")
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	var n int
	require.NoError(t, tx.QueryRow(`SELECT count(*) FROM outbox_events`).Scan(&n))
	put(t, box, db, "a")
	_, err = box.Enqueue(t.Context(), tx, &ordering.Event{}, keys("new", "a")...)
	require.ErrorContains(t, err, "could not serialize access")
	require.ErrorIs(t, err, outbox.ErrConflict)
	require.ErrorIs(t, tx.Commit(), sql.ErrTxDone, "it was rolled back")
	assert.Equal(t, "new=1, a=3", ordering.FormatSequenceID(put(t, box, db, "new", "a").Positions))
}

// Producers commit, roll back, and roll back to savepoints, at random and at
// the same time; the committed numbers of each stream are 1 to n.
func TestNumbersHaveNoHoles(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		round := 0
		rapid.Check(t, func(rt *rapid.T) {
			round++
			plans := rapid.SliceOfN(rapid.SliceOfN(planGen, 1, 8), 4, 4).Draw(rt, "plans")
			var producers sync.WaitGroup
			committed := make(chan ordering.Position, 1000)
			for _, plan := range plans {
				producers.Go(func() {
					for _, step := range plan {
						step.run(t, box, db, fmt.Sprintf("%d/", round), committed)
					}
				})
			}
			producers.Wait()
			close(committed)
			counts, highest := map[lockkeys.Key]uint64{}, map[lockkeys.Key]uint64{}
			for p := range committed {
				counts[p.Stream]++
				highest[p.Stream] = max(highest[p.Stream], p.Number)
			}
			assert.Equal(rt, counts, highest)
			for stream, n := range counts {
				a, err := box.Fetch(t.Context(), ordering.Range{Stream: stream, From: 1, To: n})
				require.NoError(rt, err)
				assert.Len(rt, a.Events, int(n))
			}
			assert.False(t, t.Failed())
		})
	})
}

// plan is what one transaction does: an event, which is taken back or kept,
// then another one, and what becomes of both.
type plan struct {
	first, second []string
	back, commit  bool
}

var streamsGen = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID)

var planGen = rapid.Custom(func(t *rapid.T) plan {
	return plan{streamsGen.Draw(t, "first"), streamsGen.Draw(t, "second"), rapid.Bool().Draw(t, "back"), rapid.Bool().Draw(t, "commit")}
})

// run reports the positions that were committed. A transaction that enqueues
// twice may be chosen to end a deadlock; then it has no effect.
func (p plan) run(t *testing.T, box *outbox.Outbox, db *sql.DB, under string, committed chan<- ordering.Position) {
	ctx := t.Context()
	tx, err := db.BeginTx(ctx, nil)
	if !assert.NoError(t, err) {
		return
	}
	defer func() { _ = tx.Rollback() }()
	if _, err = tx.ExecContext(ctx, `SAVEPOINT mine`); !assert.NoError(t, err) {
		return
	}
	first, err := box.Enqueue(ctx, tx, &ordering.Event{}, below(under, p.first)...)
	if err != nil {
		assert.ErrorIs(t, err, outbox.ErrConflict)
		return
	}
	if p.back {
		if _, err = tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT mine`); !assert.NoError(t, err) {
			return
		}
	}
	second, err := box.Enqueue(ctx, tx, &ordering.Event{}, below(under, p.second)...)
	if err != nil {
		assert.ErrorIs(t, err, outbox.ErrConflict)
		return
	}
	if !p.commit || !assert.NoError(t, tx.Commit()) {
		return
	}
	if !p.back {
		for _, p := range first.Positions {
			committed <- p
		}
	}
	for _, p := range second.Positions {
		committed <- p
	}
}

func below(under string, streams []string) []lockkeys.Key {
	list := make([]lockkeys.Key, len(streams))
	for i, stream := range streams {
		list[i] = lockkeys.MustParse(under + stream)
	}
	return list
}

// An event that has ended its stream may be enqueued again, as any other one.
func TestTheLastEventIsRepeated(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		before := &ordering.Event{ID: "before", Positions: []ordering.Position{{Stream: lockkeys.MustParse("a")}}}
		last := &ordering.Event{ID: "last", Positions: []ordering.Position{{Stream: lockkeys.MustParse("a"), End: true}}}
		inTx(t, db, func(tx *sql.Tx) {
			for _, e := range []*ordering.Event{before, last} {
				_, err := box.Enqueue(t.Context(), tx, e)
				require.NoError(t, err)
			}
		})
		inTx(t, db, func(tx *sql.Tx) {
			for _, e := range []*ordering.Event{before, last} {
				_, err := box.Enqueue(t.Context(), tx, e)
				require.ErrorIs(t, err, outbox.ErrDuplicateID)
			}
			_, err := box.Enqueue(t.Context(), tx, &ordering.Event{ID: "last", Positions: before.Positions})
			require.ErrorIs(t, err, outbox.ErrOtherEvent)
			_, err = box.Enqueue(t.Context(), tx, &ordering.Event{ID: "later", Positions: before.Positions})
			require.ErrorIs(t, err, outbox.ErrEnded)
			_, err = box.EnqueueAll(t.Context(), tx, []*ordering.Event{before, last})
			require.ErrorIs(t, err, outbox.ErrDuplicateID)
		})
	})
}
