package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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

// on makes an event on the streams given in text form; a "!" ends the stream.
func on(id string, streams ...string) *ordering.Event {
	e := &ordering.Event{ID: id}
	for _, s := range streams {
		end := s[len(s)-1] == '!'
		if end {
			s = s[:len(s)-1]
		}
		e.Positions = append(e.Positions, ordering.Position{Stream: lockkeys.MustParse(s), End: end})
	}
	return e
}

// numbered has an event's ID and positions.
func numbered(added []outbox.Enqueued) (texts []string) {
	for _, a := range added {
		texts = append(texts, a.Event.ID+": "+ordering.FormatSequenceID(a.Event.Positions))
	}
	return texts
}

func at(stream string, number uint64) ordering.Position {
	return ordering.Position{Stream: lockkeys.MustParse(stream), Number: number}
}

func TestEnqueueAll(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		put(t, box, db, "a")
		inTx(t, db, func(tx *sql.Tx) {
			added, err := box.EnqueueAll(t.Context(), tx, []*ordering.Event{
				on("1", "b", "a"), on("2", "a"), on("3", "c!"), on("4", "b"),
			}, at("a", 1), at("b", 0), at("elsewhere", 0))
			require.NoError(t, err)
			assert.Equal(t, []string{"1: b=1, a=2", "2: a=3", "3: c=1;end", "4: b=2"}, numbered(added))
			for _, a := range added {
				var name string
				require.NoError(t, tx.QueryRow(`SELECT name FROM outbox_events WHERE id = $1`, a.Row).Scan(&name))
				assert.Equal(t, a.Event.ID, name)
			}
			none, err := box.EnqueueAll(t.Context(), tx, nil)
			require.NoError(t, err)
			assert.Empty(t, none)
		})
		a, err := box.Fetch(t.Context(), ordering.Range{Stream: lockkeys.MustParse("a"), From: 1, To: 3})
		require.NoError(t, err)
		assert.Len(t, a.Events, 3)
	})
}

func TestEnqueueAllRefuses(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		inTx(t, db, func(tx *sql.Tx) {
			_, err := box.EnqueueAll(t.Context(), tx, []*ordering.Event{on("first", "a"), on("", "over!")})
			require.NoError(t, err)
		})
		cases := map[string]struct {
			events   []*ordering.Event
			expected []ordering.Position
			want     error
		}{
			"nil":              {[]*ordering.Event{on("x", "a"), nil}, nil, outbox.ErrNoEvent},
			"no stream":        {[]*ordering.Event{on("x", "a"), {}}, nil, ordering.ErrNoPosition},
			"twice":            {[]*ordering.Event{on("x", "a"), on("x", "a")}, nil, outbox.ErrDuplicateID},
			"one ID for two":   {[]*ordering.Event{on("x", "a"), on("x", "b")}, nil, outbox.ErrOtherEvent},
			"there":            {[]*ordering.Event{on("x", "a"), on("first", "a")}, nil, outbox.ErrDuplicateID},
			"another is there": {[]*ordering.Event{on("x", "a"), on("first", "b")}, nil, outbox.ErrOtherEvent},
			"ended":            {[]*ordering.Event{on("x", "a"), on("y", "over")}, nil, outbox.ErrEnded},
			"ends within":      {[]*ordering.Event{on("x", "a!"), on("y", "a")}, nil, outbox.ErrEnded},
			"behind":           {[]*ordering.Event{on("x", "a")}, []ordering.Position{at("a", 0)}, outbox.ErrVersion},
			"ahead":            {[]*ordering.Event{on("x", "a")}, []ordering.Position{at("a", 2)}, outbox.ErrVersion},
			"elsewhere":        {[]*ordering.Event{on("x", "a")}, []ordering.Position{at("a", 1), at("new", 1)}, outbox.ErrVersion},
		}
		inTx(t, db, func(tx *sql.Tx) {
			for name, c := range cases {
				added, err := box.EnqueueAll(t.Context(), tx, c.events, c.expected...)
				require.ErrorIs(t, err, c.want, name)
				assert.Nil(t, added)
			}
			_, err := box.EnqueueAll(t.Context(), nil, nil)
			require.ErrorIs(t, err, outbox.ErrNoTx)
			_, err = box.EnqueueAll(t.Context(), tx, nil, at("a", 7))
			var version *outbox.VersionError
			require.ErrorAs(t, err, &version)
			assert.Equal(t, outbox.VersionError{Expected: at("a", 7), Actual: at("a", 1)}, *version)
			require.ErrorContains(t, err, "a: expected 7, it is at 1")
			added, err := box.EnqueueAll(t.Context(), tx, []*ordering.Event{on("x", "a", "b", "new")})
			require.NoError(t, err)
			assert.Equal(t, []string{"x: a=2, b=1, new=1"}, numbered(added), "nothing was half done")
		})
	})
}

// More than one statement can insert.
func TestEnqueueAllOfMany(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		put(t, box, db, "a")
		many := func(last string) (list []*ordering.Event) {
			for range 300 {
				list = append(list, on("", "a", "b"))
			}
			return append(list, on(last, "a"))
		}
		inTx(t, db, func(tx *sql.Tx) {
			_, err := box.EnqueueAll(t.Context(), tx, []*ordering.Event{on("there", "b")})
			require.NoError(t, err)
			_, err = box.EnqueueAll(t.Context(), tx, many("there"))
			require.ErrorIs(t, err, outbox.ErrOtherEvent)
			_, err = box.EnqueueAll(t.Context(), tx, many("last"), at("a", 7))
			require.ErrorIs(t, err, outbox.ErrVersion)
			added, err := box.EnqueueAll(t.Context(), tx, many("last"), at("a", 1))
			require.NoError(t, err)
			require.Len(t, added, 301)
			assert.Equal(t, []string{"last: a=302"}, numbered(added[300:]), "nothing was half done")
		})
	})
}

// An expected position has an epoch, which a stream may be behind.
func TestEnqueueAllInALaterEpoch(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		put(t, box, db, "a")
		box, _ = p.box(t, outbox.Config{Epoch: 3})
		inTx(t, db, func(tx *sql.Tx) {
			_, err := box.EnqueueAll(t.Context(), tx, []*ordering.Event{on("x", "a")}, at("a", 2))
			require.ErrorIs(t, err, outbox.ErrVersion)
			added, err := box.EnqueueAll(t.Context(), tx, []*ordering.Event{on("x", "a"), on("y", "a", "b")}, at("a", 1), at("b", 0))
			require.NoError(t, err)
			assert.Equal(t, []string{"x: a=1;epoch=3", "y: a=2;epoch=3, b=1;epoch=3"}, numbered(added))
			_, err = box.EnqueueAll(t.Context(), tx, nil, at("a", 2))
			require.ErrorContains(t, err, "expected 2, it is at 2 of epoch 3")
		})
	})
}

// Numbers end with the epoch, also in the middle of a call.
func TestEnqueueAllAtTheEndOfAnEpoch(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{Epoch: 1})
		put(t, box, db, "a")
		last := ordering.Position{Epoch: 1, Number: ordering.MaxNumber}.Place()
		_, err := db.Exec(`UPDATE outbox_streams SET last = $1`, int64(last)-2)
		require.NoError(t, err)
		three := []*ordering.Event{on("", "a"), on("", "a"), on("", "a")}
		inTx(t, db, func(tx *sql.Tx) {
			_, err := box.EnqueueAll(t.Context(), tx, three)
			require.ErrorIs(t, err, ordering.ErrNumber)
			added, err := box.EnqueueAll(t.Context(), tx, three[:2])
			require.NoError(t, err)
			assert.Equal(t, uint64(ordering.MaxNumber), added[1].Event.Positions[0].Number)
			_, err = box.EnqueueAll(t.Context(), tx, three[:1])
			require.ErrorIs(t, err, ordering.ErrNumber)
		})
	})
}

// Of transactions that read the same streams, and write some of them on condition
// that none has moved, one is committed, whichever streams they write.
func TestConditionsThatConflict(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		for round := range 20 {
			a, b := fmt.Sprintf("a/%d", round), fmt.Sprintf("b/%d", round)
			var racers sync.WaitGroup
			results := make(chan error, 4)
			for i := range cap(results) {
				racers.Go(func() {
					results <- inATx(t.Context(), db, func(tx *sql.Tx) error {
						_, err := box.EnqueueAll(t.Context(), tx, []*ordering.Event{on("", []string{a, b}[i%2])}, at(a, 0), at(b, 0))
						return err
					})
				})
			}
			racers.Wait()
			close(results)
			committed := 0
			for err := range results {
				if err == nil {
					committed++
				} else {
					require.ErrorIs(t, err, outbox.ErrVersion)
				}
			}
			require.Equal(t, 1, committed)
		}
	})
}

// Calls with many streams in any order do not deadlock, and leave no holes.
func TestEnqueueAllSideBySide(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		const writers, each, streams = 8, 20, 5
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					var events []*ordering.Event
					for s := range streams {
						events = append(events, on("", fmt.Sprintf("s/%d", (w+i+s*(1+w%2))%streams)))
					}
					assert.NoError(t, inATx(t.Context(), db, func(tx *sql.Tx) error {
						_, err := box.EnqueueAll(t.Context(), tx, events)
						return err
					}))
				}
			})
		}
		all.Wait()
		rows, err := db.Query(`SELECT s.stream, s.last, (SELECT count(*) FROM outbox_positions p WHERE p.stream = s.id AND p.number <= s.last) FROM outbox_streams s`)
		require.NoError(t, err)
		defer rows.Close()
		total := 0
		for rows.Next() {
			var stream string
			var last, count int
			require.NoError(t, rows.Scan(&stream, &last, &count))
			assert.Equal(t, last, count, stream)
			total += count
		}
		require.NoError(t, rows.Err())
		assert.Equal(t, writers*each*streams, total)
	})
}

// The box is like a list for each stream.
func TestEnqueueAllIsLikeLists(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		test := 0
		rapid.Check(t, func(t *rapid.T) {
			test++
			streams := make([]string, 4)
			for i := range streams {
				streams[i] = fmt.Sprintf("%d/%d", test, i)
			}
			last, ended := map[string]uint64{}, map[string]bool{}
			for range rapid.IntRange(1, 6).Draw(t, "calls") {
				var events []*ordering.Event
				then, endedThen := map[string]uint64{}, map[string]bool{}
				var want []uint64
				refused := false
				for range rapid.IntRange(0, 5).Draw(t, "events") {
					e := &ordering.Event{}
					for _, s := range rapid.SliceOfNDistinct(rapid.SampledFrom(streams), 1, 3, rapid.ID).Draw(t, "streams") {
						end := rapid.IntRange(0, 15).Draw(t, "end") == 0
						refused = refused || ended[s] || endedThen[s]
						then[s]++
						want = append(want, last[s]+then[s])
						endedThen[s] = end
						e.Positions = append(e.Positions, ordering.Position{Stream: lockkeys.MustParse(s), End: end})
					}
					events = append(events, e)
				}
				var expected []ordering.Position
				stale := false
				for _, s := range rapid.SliceOfDistinct(rapid.SampledFrom(streams), rapid.ID).Draw(t, "expected") {
					off := rapid.Uint64Range(0, 7).Draw(t, "off") / 7
					stale = stale || off != 0
					expected = append(expected, at(s, last[s]+off))
				}
				err := inATx(context.Background(), db, func(tx *sql.Tx) error {
					added, err := box.EnqueueAll(context.Background(), tx, events, expected...)
					if err != nil {
						return err
					}
					var got []uint64
					for _, a := range added {
						for _, p := range a.Event.Positions {
							got = append(got, p.Number)
						}
					}
					if !assert.ObjectsAreEqual(want, got) {
						return fmt.Errorf("numbers %v, want %v", got, want)
					}
					return nil
				})
				switch {
				case stale:
					require.ErrorIs(t, err, outbox.ErrVersion)
				case refused:
					require.ErrorIs(t, err, outbox.ErrEnded)
				default:
					require.NoError(t, err)
					for s, n := range then {
						last[s] += n
						ended[s] = endedThen[s]
					}
				}
			}
		})
	})
}

func TestLocalEventsAreNotSent(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		local, db := p.box(t, outbox.Config{Local: true, Retention: -1})
		put(t, local, db, "a")
		put(t, local, db, "a", "b")
		box, _ := p.box(t, outbox.Config{})
		sent := make(chan *ordering.Event, 3)
		start(t, box, outbox.PublisherFunc(func(_ context.Context, e *ordering.Event) error { sent <- e; return nil }), outbox.RelayConfig{})
		put(t, box, db, "b")
		assert.Equal(t, "b=2", ordering.FormatSequenceID((<-sent).Positions))
		n, err := local.Prune(t.Context())
		require.NoError(t, err)
		assert.Zero(t, n)
		a, err := local.Fetch(t.Context(), ordering.Range{Stream: lockkeys.MustParse("a"), From: 1, To: 9})
		require.NoError(t, err)
		assert.Len(t, a.Events, 2)
	})
}

// What is to be kept for ever is not deleted by another outbox on the same tables, with a
// Retention of its own, whether it was sent by that one's relay or to nobody.
func TestAnotherOutboxDoesNotPruneWhatIsKept(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		for _, local := range []bool{false, true} {
			keeping, db := p.box(t, outbox.Config{Retention: -1, Local: local})
			hasty, _ := p.box(t, outbox.Config{Retention: time.Microsecond})
			put(t, keeping, db, fmt.Sprint("kept/", local))
			put(t, hasty, db, fmt.Sprint("gone/", local))
			start(t, hasty, outbox.PublisherFunc(func(context.Context, *ordering.Event) error { return nil }), outbox.RelayConfig{})
			allSent(t, hasty)
			require.Eventually(t, func() bool {
				_, err := hasty.Prune(t.Context())
				require.NoError(t, err)
				_, err = hasty.Fetch(t.Context(), ordering.Range{Stream: lockkeys.MustParse(fmt.Sprint("gone/", local)), From: 1, To: 1})
				return errors.Is(err, replay.ErrNotRetained)
			}, waitAtMost, time.Millisecond)
			a, err := hasty.Fetch(t.Context(), ordering.Range{Stream: lockkeys.MustParse(fmt.Sprint("kept/", local)), From: 1, To: 1})
			require.NoError(t, err)
			assert.Len(t, a.Events, 1)
		}
	})
}

// A long log that is kept does not make pruning slow.
func TestPruningDoesNotLookAtWhatIsKept(t *testing.T) {
	_, db := newSQLite(t).box(t, outbox.Config{})
	var plan string
	require.NoError(t, db.QueryRow(`EXPLAIN QUERY PLAN SELECT id FROM outbox_events WHERE NOT kept AND sent IS NOT NULL AND sent < 5 ORDER BY sent LIMIT 5`).
		Scan(new(int), new(int), new(int), &plan))
	require.Contains(t, plan, "outbox_events_prunable")
}

// inATx runs do in a transaction, and commits it unless do has failed.
func inATx(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
