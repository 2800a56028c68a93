package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/outbox"
)

// twoEach enqueues an event on one stream and then one on another, in one
// transaction, as pairs of transactions do in opposite order. Both of a pair
// have their first stream before either asks for its second, unless lock is
// set, which would not let them.
func twoEach(ctx context.Context, box *outbox.Outbox, db *sql.DB, lock bool, met func(), streams ...lockkeys.Key) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if lock {
		if err := box.Lock(ctx, tx, streams...); err != nil {
			return err
		}
	}
	for i, stream := range streams {
		if i == 1 {
			met()
		}
		if _, err := box.Enqueue(ctx, tx, &ordering.Event{}, stream); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// TestOppositeOrder: transactions that enqueue on the same streams in opposite
// order deadlock on PostgreSQL, which a typed error says, and running them again
// mends; with Lock they do not.
func TestOppositeOrder(t *testing.T) {
	box, db := newPostgres(t).box(t, outbox.Config{})
	const pairs = 16
	for _, lock := range []bool{false, true} {
		var conflicts atomic.Int32
		var producers sync.WaitGroup
		for i := range pairs {
			var met sync.WaitGroup
			met.Add(2)
			a, b := lockkeys.Must(fmt.Sprint(lock), fmt.Sprint(i), "a"), lockkeys.Must(fmt.Sprint(lock), fmt.Sprint(i), "b")
			for _, streams := range [][]lockkeys.Key{{a, b}, {b, a}} {
				producers.Go(func() {
					meet := sync.OnceFunc(func() { met.Done(); met.Wait() })
					if lock {
						meet = func() {}
					}
					err := twoEach(t.Context(), box, db, lock, meet, streams...)
					for ; err != nil; err = twoEach(t.Context(), box, db, lock, meet, streams...) {
						if !assert.ErrorIs(t, err, outbox.ErrConflict) {
							return
						}
						assert.ErrorContains(t, err, "take all their streams with Lock first")
						conflicts.Add(1)
					}
				})
			}
		}
		producers.Wait()
		if lock {
			assert.Zero(t, conflicts.Load())
		} else {
			assert.GreaterOrEqual(t, conflicts.Load(), int32(pairs))
		}
		for i := range pairs {
			for _, stream := range []string{"a", "b"} {
				answer, err := box.Fetch(t.Context(), ordering.Range{Stream: lockkeys.Must(fmt.Sprint(lock), fmt.Sprint(i), stream), From: 1, To: 2})
				require.NoError(t, err)
				assert.Len(t, answer.Events, 2)
			}
		}
	}
}

// TestLock: a stream that is locked has no event by that, and keeps its number
// when the transaction is rolled back, or when Lock fails.
func TestLock(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		put(t, box, db, "a")
		tx, err := db.Begin()
		require.NoError(t, err)
		require.NoError(t, box.Lock(t.Context(), tx, keys("b", "a", "b")...))
		require.NoError(t, box.Lock(t.Context(), tx))
		require.NoError(t, tx.Rollback())

		many := make([]string, 3*ordering.MaxPositions)
		for i := range many {
			many[i] = fmt.Sprintf("many/%d", i)
		}
		inTx(t, db, func(tx *sql.Tx) {
			require.NoError(t, box.Lock(t.Context(), tx, keys("new", "a")...))
			require.NoError(t, box.Lock(t.Context(), tx, keys(many...)...))
			require.ErrorIs(t, box.Lock(t.Context(), tx, lockkeys.Must(strings.Repeat("x", 600))), ordering.ErrLongStream)
			require.ErrorIs(t, box.Lock(t.Context(), nil), outbox.ErrNoTx)
			e, err := box.Enqueue(t.Context(), tx, &ordering.Event{}, keys("new", "a", "b")...)
			require.NoError(t, err)
			assert.Equal(t, "new=1, a=2, b=1", ordering.FormatSequenceID(e.Positions))
		})
		_, err = box.Fetch(t.Context(), ordering.Range{Stream: lockkeys.MustParse("many/7"), From: 1, To: 1})
		require.ErrorIs(t, err, replay.ErrNotAssigned)
		stats, err := box.Stats(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2, stats.Unsent)
		assert.EqualValues(t, 1, put(t, box, db, "many/7").Positions[0].Number)

		inTx(t, db, func(tx *sql.Tx) {
			_, err := box.Enqueue(t.Context(), tx, &ordering.Event{Positions: []ordering.Position{{Stream: lockkeys.MustParse("over"), End: true}}})
			require.NoError(t, err)
		})
		inTx(t, db, func(tx *sql.Tx) {
			require.NoError(t, box.Lock(t.Context(), tx, keys("over")...))
			_, err := box.Enqueue(t.Context(), tx, &ordering.Event{}, keys("over")...)
			require.ErrorIs(t, err, outbox.ErrEnded)
		})
	})
}

// TestSQLiteIsBusy: a transaction that read before others wrote cannot write,
// which is the same error.
func TestSQLiteIsBusy(t *testing.T) {
	p := newSQLite(t)
	p.url = strings.Replace(p.url, "_txlock=immediate", "_txlock=deferred", 1)
	box, db := p.box(t, outbox.Config{})
	put(t, box, db, "a")
	tx, err := db.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	var n int
	require.NoError(t, tx.QueryRow(`SELECT count(*) FROM outbox_events`).Scan(&n))
	put(t, box, db, "a")
	_, err = box.Enqueue(t.Context(), tx, &ordering.Event{}, keys("a")...)
	require.ErrorIs(t, err, outbox.ErrConflict)
	require.ErrorIs(t, box.Lock(t.Context(), tx, keys("a")...), outbox.ErrConflict)
	require.NoError(t, tx.Rollback())
	assert.EqualValues(t, 3, put(t, box, db, "a").Positions[0].Number)
}

// TestOneIDTwoEvents: whether an event with an ID that is there already is the
// same one, sent again, or another one that would be lost, is told.
func TestOneIDTwoEvents(t *testing.T) {
	first := func() *ordering.Event {
		return &ordering.Event{ID: "1", Type: "Paid", Payload: []byte("10"), Headers: map[string]string{"tenant": "7"}, CorrelationID: "c", CausationID: "d"}
	}
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		enqueue := func(e *ordering.Event, streams ...string) (err error) {
			inTx(t, db, func(tx *sql.Tx) { _, err = box.Enqueue(t.Context(), tx, e, keys(streams...)...) })
			return err
		}
		require.NoError(t, enqueue(first(), "order/1", "order/2"))
		require.ErrorIs(t, enqueue(first(), "order/2", "order/1"), outbox.ErrDuplicateID, "the order of streams is nothing")
		traced := first()
		traced.Headers, traced.Time = map[string]string{"traceparent": "another"}, time.Unix(1, 0)
		require.ErrorIs(t, enqueue(traced, "order/1", "order/2"), outbox.ErrDuplicateID, "neither is what comes with a request")
		for name, change := range map[string]func(e *ordering.Event) (streams []string){
			"streams are others":        func(*ordering.Event) []string { return []string{"order/3"} },
			"streams are others, fewer": func(*ordering.Event) []string { return []string{"order/1"} },
			"streams are others, more":  func(*ordering.Event) []string { return []string{"order/1", "order/2", "order/3"} },
			"type is another":           func(e *ordering.Event) []string { e.Type = "Refunded"; return nil },
			"payload is another":        func(e *ordering.Event) []string { e.Payload = []byte("11"); return nil },
		} {
			e := first()
			streams := change(e)
			if streams == nil {
				streams = []string{"order/1", "order/2"}
			}
			err := enqueue(e, streams...)
			require.ErrorIs(t, err, outbox.ErrOtherEvent, name)
			require.NotErrorIs(t, err, outbox.ErrDuplicateID, name)
			what, _, _ := strings.Cut(name, ",")
			assert.ErrorContains(t, err, what)
			assert.ErrorContains(t, err, "order/1=1, order/2=1")
		}
		assert.Equal(t, "order/1=2, order/3=1", ordering.FormatSequenceID(put(t, box, db, "order/1", "order/3").Positions), "nothing of them was written")
	})
}
