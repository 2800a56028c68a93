package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/outbox"
)

func TestOperatorErrors(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		putHuge(t, box, db, "report", "a")
		operations := map[string]func(context.Context, string) error{"resumed": box.Resume, "skipped": box.Skip, "dropped": box.Drop}
		for name, do := range operations {
			err := do(t.Context(), "report")
			require.ErrorIs(t, err, outbox.ErrNotParked, "it was not tried yet")
			assert.ErrorContains(t, err, `outbox: event "report" could not be `+name)
			require.ErrorIs(t, do(t.Context(), "nobody"), outbox.ErrNotParked)
		}
		_, stop := start(t, box, choosy(), outbox.RelayConfig{})
		parked(t, box, 1)
		stop()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, do := range operations {
			require.ErrorIs(t, do(ended, "report"), context.Canceled)
		}
		parked(t, box, 1)
		require.NoError(t, box.Skip(t.Context(), "report"))
		for _, do := range operations {
			require.ErrorIs(t, do(t.Context(), "report"), outbox.ErrNotParked)
		}
		require.NoError(t, db.Close())
		_, err := box.Parked(t.Context())
		require.ErrorContains(t, err, "outbox: list parked events")
		require.ErrorContains(t, box.Resume(t.Context(), "report"), "closed")
	})
}

// What is dropped with a parked event is all that waits behind it, with a record for
// each number; what waits behind that on other streams is sent, and so is what
// comes later.
func TestDrop(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var log safeBuffer
		box, db := p.box(t, outbox.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		r := choosy()
		put(t, box, db, "c")
		put(t, box, db, "a")
		putHuge(t, box, db, "report", "a", "b")
		var behind []string
		for i := range 600 { // more than are given up by one statement
			streams := [][]string{{"a"}, {"b"}, {"a", "c"}}[i%3]
			behind = append(behind, put(t, box, db, streams...).ID)
		}
		put(t, box, db, "c")
		start(t, box, r, outbox.RelayConfig{})
		parked(t, box, 1)
		arrive(t, r, "c", 1)

		before := time.Now().Add(-time.Minute)
		require.NoError(t, box.Drop(dispatcher.WithOperator(t.Context(), "ann", "case 17"), "report"))
		arrive(t, r, "a", 1)
		arrive(t, r, "c", 1, 202)
		assert.Equal(t, "a=403, b=202", ordering.FormatSequenceID(put(t, box, db, "a", "b").Positions), "their numbers stay used")
		arrive(t, r, "a", 1, 403)
		arrive(t, r, "b", 202)
		allSent(t, box)
		assert.Empty(t, parked(t, box, 0))

		answer, err := box.Fetch(t.Context(), ordering.Range{Stream: lockkeys.MustParse("c"), From: 1, To: 202})
		require.NoError(t, err)
		never := []uint64{}
		for _, r := range answer.NoSuch {
			never = append(never, upTo(int(r.To))[r.From-1:]...)
		}
		assert.Equal(t, upTo(201)[1:], never)

		list, err := box.Decisions(t.Context(), time.Now().Add(time.Minute), 10_000)
		require.NoError(t, err)
		given := map[string]string{}
		for _, d := range list {
			assert.Equal(t, []string{"ann", "case 17"}, []string{d.Operator, d.Why})
			assert.True(t, d.At.After(before), d.At)
			given[d.Event] = d.Error
		}
		assert.Len(t, list, 2+200+200+400, "a number each")
		assert.Len(t, given, 601)
		assert.Equal(t, errHuge.Error(), given["report"])
		for _, id := range behind {
			assert.Equal(t, `dropped behind event "report": `+errHuge.Error(), given[id])
		}
		older, err := box.Decisions(t.Context(), before, 10)
		require.NoError(t, err)
		assert.Empty(t, older)
		few, err := box.Decisions(t.Context(), time.Now().Add(time.Minute), 3)
		require.NoError(t, err)
		assert.Equal(t, list[:3], few)
		assert.Contains(t, log.String(), `msg="outbox: parked event dropped by an operator" event=report numbers=802 operator=ann why="case 17"`)
	})
}

// Two that drop what waits behind two parked events give up what waits behind both
// once; what is enqueued meanwhile is dropped with a record, or sent.
func TestDropsAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		r := choosy()
		start(t, box, r, outbox.RelayConfig{})
		putHuge(t, box, db, "one", "a")
		putHuge(t, box, db, "two", "b")
		parked(t, box, 2)
		for range 20 {
			put(t, box, db, "a", "b")
		}
		var group sync.WaitGroup
		for _, event := range []string{"one", "two"} {
			group.Go(func() {
				require.Eventually(t, func() bool {
					err := box.Drop(t.Context(), event)
					return err == nil || errors.Is(err, outbox.ErrNotParked)
				}, waitAtMost, time.Millisecond) // on SQLite a transaction may be in the way
			})
		}
		group.Go(func() {
			for range 20 {
				put(t, box, db, "a", "b")
			}
		})
		group.Wait()
		allSent(t, box)
		list, err := box.Decisions(t.Context(), time.Now().Add(time.Minute), 10_000)
		require.NoError(t, err)
		for _, stream := range []string{"a", "b"} {
			got := r.numbers(stream)
			assert.True(t, slices.IsSorted(got), got)
			for _, d := range list {
				if d.Position.Stream == lockkeys.MustParse(stream) {
					assert.NotContains(t, got, d.Position.Number)
					got = append(got, d.Position.Number)
				}
			}
			assert.ElementsMatch(t, upTo(41), got, "each number is sent or has a record")
		}
	})
}

// Operators resume and skip at random while events are enqueued, sent, fail,
// are refused for good, and confirmations are lost. All that was not skipped
// arrives, in order; Fetch has the same.
func TestOperatorsAtRandom(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		r := moody(11)
		before := r.before
		r.before = func(ctx context.Context, e *ordering.Event, times int) error {
			if e.Type == huge && times < 2 {
				return dispatcher.Permanent(errHuge)
			}
			return before(ctx, e, times)
		}
		start(t, box, r, outbox.RelayConfig{Window: 4, MaxAttempts: 2, Timeout: 20 * time.Millisecond, Backoff: dispatcher.Backoff{Max: 2 * time.Millisecond}})
		var producer sync.WaitGroup
		count, skipped := map[string]uint64{}, map[lockkeys.Key][]uint64{}
		producer.Go(func() {
			random := rand.New(rand.NewPCG(5, 1))
			for i := range 100 {
				streams := streamSets[i%len(streamSets)]
				e := &ordering.Event{}
				if random.IntN(8) == 0 {
					e.Type = huge
				}
				inTx(t, db, func(tx *sql.Tx) {
					_, err := box.Enqueue(t.Context(), tx, e, keys(streams...)...)
					assert.NoError(t, err)
				})
				box.Notify()
				for _, s := range streams {
					count[s]++
				}
			}
		})
		operate := func() bool {
			list, err := box.Parked(t.Context())
			assert.NoError(t, err)
			for _, e := range list {
				if rand.IntN(2) == 0 {
					assert.NoError(t, box.Resume(t.Context(), e.Event))
					continue
				}
				assert.NoError(t, box.Skip(t.Context(), e.Event))
				for _, p := range e.Positions {
					skipped[p.Stream] = append(skipped[p.Stream], p.Number)
				}
			}
			s, err := box.Stats(t.Context())
			return err == nil && s.Unsent == 0
		}
		require.Eventually(t, func() bool { operate(); return len(skipped) > 0 }, waitAtMost, time.Millisecond)
		producer.Wait()
		require.Eventually(t, operate, waitAtMost, time.Millisecond)
		for name, n := range count {
			stream := lockkeys.MustParse(name)
			arrived := r.numbers(name)
			assert.True(t, slices.IsSorted(arrived), "%s: %v", name, arrived)
			answer, err := box.Fetch(t.Context(), ordering.Range{Stream: stream, From: 1, To: n})
			require.NoError(t, err)
			var there, never []uint64
			for _, e := range answer.Events {
				at, _ := e.On(stream)
				number := at.Number
				there = append(there, number)
				assert.Contains(t, arrived, number, name)
			}
			for _, r := range answer.NoSuch {
				never = append(never, r.From)
			}
			assert.ElementsMatch(t, skipped[stream], never, name)
			assert.ElementsMatch(t, upTo(int(n)), append(there, never...), name)
		}
	})
}
