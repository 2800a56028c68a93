package outbox_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/outbox"
)

// A database that was restored from a backup goes on in a later epoch: all streams
// start at 1 again, are sent behind what is left, and can be asked for.
func TestEpochAfterARestore(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		put(t, box, db, "a", "b")
		put(t, box, db, "a")
		inTx(t, db, func(tx *sql.Tx) {
			_, err := box.Enqueue(t.Context(), tx, &ordering.Event{Positions: []ordering.Position{{Stream: lockkeys.MustParse("closed"), End: true}}})
			require.NoError(t, err)
		})

		box, db = p.box(t, outbox.Config{Epoch: 2})
		assert.Equal(t, "a=1;epoch=2", put(t, box, db, "a").Positions[0].String())
		assert.Equal(t, "a=2;epoch=2, new=1;epoch=2", ordering.FormatSequenceID(put(t, box, db, "a", "new").Positions))
		inTx(t, db, func(tx *sql.Tx) {
			require.NoError(t, box.Lock(t.Context(), tx, keys("b", "locked")...))
			e, err := box.Enqueue(t.Context(), tx, &ordering.Event{Positions: []ordering.Position{{Stream: lockkeys.MustParse("locked"), End: true}}})
			require.NoError(t, err)
			assert.Equal(t, "locked=1;epoch=2;end", e.Positions[0].String())
			for _, stream := range []string{"locked", "closed"} {
				_, err = box.Enqueue(t.Context(), tx, &ordering.Event{}, lockkeys.MustParse(stream))
				require.ErrorIs(t, err, outbox.ErrEnded)
			}
			_, err = box.Enqueue(t.Context(), tx, &ordering.Event{Positions: []ordering.Position{{Stream: lockkeys.MustParse("b"), Epoch: 2}}})
			require.ErrorIs(t, err, outbox.ErrNumbered)
		})

		old, _ := p.box(t, outbox.Config{})
		assert.Equal(t, "a=3;epoch=2", put(t, old, db, "a").Positions[0].String(), "a process that was not told goes on in the later one")

		a := lockkeys.MustParse("a")
		fetch := func(r ordering.Range) ([]string, error) {
			r.Stream = a
			answer, err := box.Fetch(t.Context(), r)
			var got []string
			for _, e := range answer.Events {
				at, _ := e.On(a)
				assert.True(t, r.Has(at))
				got = append(got, at.String())
			}
			assert.Empty(t, answer.NoSuch)
			return got, err
		}
		got, err := fetch(ordering.Range{From: 1, To: 9})
		require.NoError(t, err)
		assert.Equal(t, []string{"a=1", "a=2"}, got)
		got, err = fetch(ordering.Range{Epoch: 2, From: 2, To: 9})
		require.NoError(t, err)
		assert.Equal(t, []string{"a=2;epoch=2", "a=3;epoch=2"}, got)
		_, err = fetch(ordering.Range{From: 3, To: 9})
		require.ErrorIs(t, err, replay.ErrNotRetained, "what the backup did not have")
		_, err = fetch(ordering.Range{Epoch: 2, From: 4, To: 9})
		require.ErrorIs(t, err, replay.ErrNotAssigned)
		require.ErrorContains(t, err, "a=3;epoch=2")

		sent := make(chan string, 100)
		_, stop := start(t, box, outbox.PublisherFunc(func(_ context.Context, e *ordering.Event) error {
			if at, ok := e.On(a); ok {
				sent <- at.String()
			}
			return nil
		}), outbox.RelayConfig{})
		for _, want := range []string{"a=1", "a=2", "a=1;epoch=2", "a=2;epoch=2", "a=3;epoch=2"} {
			require.Equal(t, want, <-sent)
		}
		stop()
	})
}

// A stream's numbers in an epoch end before those of the next one.
func TestNumbersOfAnEpochEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{Epoch: 1})
		put(t, box, db, "a")
		_, err := db.ExecContext(t.Context(), `UPDATE outbox_streams SET last = 200000000000000`)
		require.NoError(t, err)
		inTx(t, db, func(tx *sql.Tx) {
			_, err := box.Enqueue(t.Context(), tx, &ordering.Event{}, lockkeys.MustParse("a"))
			require.ErrorIs(t, err, ordering.ErrNumber)
		})
		box, db = p.box(t, outbox.Config{Epoch: 2})
		assert.Equal(t, "a=1;epoch=2", put(t, box, db, "a").Positions[0].String())
	})
}

// What an operator gave up is recorded with its number in its epoch.
func TestDecisionsOfAnEpoch(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{Epoch: 2})
		putHuge(t, box, db, "report", "a")
		_, stop := start(t, box, choosy(), outbox.RelayConfig{})
		parked(t, box, 1)
		stop()
		require.NoError(t, box.Skip(t.Context(), "report"))
		list, err := box.Decisions(t.Context(), time.Now().Add(time.Hour), 10)
		require.NoError(t, err)
		require.Len(t, list, 1)
		assert.Equal(t, ordering.Position{Stream: lockkeys.MustParse("a"), Epoch: 2, Number: 1}, list[0].Position)
	})
}
