package outbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/outbox"
)

func TestFetch(t *testing.T) {
	a := lockkeys.MustParse("a")
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		for range 300 {
			put(t, box, db, "a")
		}
		inTx(t, db, func(tx *sql.Tx) {
			for range 3 {
				_, err := box.Enqueue(t.Context(), tx, &ordering.Event{Payload: bytes.Repeat([]byte{1}, 600<<10)}, a)
				require.NoError(t, err)
			}
			_, err := box.Enqueue(t.Context(), tx, &ordering.Event{Positions: []ordering.Position{{Stream: lockkeys.MustParse("b"), End: true}}})
			require.NoError(t, err)
		})
		for _, c := range []struct {
			stream      string
			from, to    uint64
			first, last uint64
			noSuch      uint64 // first of them
			err         error
		}{
			{"a", 3, 5, 3, 5, 0, nil},
			{"a", 1, ordering.MaxNumber, 1, 256, 0, nil},
			{"a", 299, 400, 299, 302, 0, nil}, // 302 passes the bound of bytes
			{"a", 303, 400, 303, 303, 0, nil},
			{"a", 304, 304, 0, 0, 0, replay.ErrNotAssigned},
			{"new", 1, 1, 0, 0, 0, replay.ErrNotAssigned},
			{"b", 1, 4, 1, 1, 2, nil},
			{"b", 3, 4, 0, 0, 3, nil},
			{"a", 0, 4, 0, 0, 0, outbox.ErrRange},
			{"a", 5, 4, 0, 0, 0, outbox.ErrRange},
			{"a", 5, ordering.MaxNumber + 1, 0, 0, 0, outbox.ErrRange},
		} {
			stream := lockkeys.MustParse(c.stream)
			answer, err := box.Fetch(t.Context(), ordering.Range{Stream: stream, From: c.from, To: c.to})
			require.ErrorIs(t, err, c.err, "%v", c)
			var want, got []uint64
			for n := c.first; n > 0 && n <= c.last; n++ {
				want = append(want, n)
			}
			for _, e := range answer.Events {
				p, _ := e.On(stream)
				got = append(got, p.Number)
			}
			assert.Equal(t, want, got, "%v", c)
			if c.noSuch > 0 {
				assert.Equal(t, []ordering.Range{{Stream: stream, From: c.noSuch, To: c.to}}, answer.NoSuch)
			} else {
				assert.Empty(t, answer.NoSuch)
			}
		}
		assert.True(t, dispatcher.IsPermanent(last(box.Fetch(t.Context(), ordering.Range{Stream: a, From: 0, To: 0}))))
	})
}

func last(_ replay.Answer, err error) error { return err }

// Events that were sent are deleted after their retention, the others are
// not, and the numbers go on.
func TestRetention(t *testing.T) {
	a := lockkeys.MustParse("a")
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{Retention: time.Hour})
		inTx(t, db, func(tx *sql.Tx) {
			for range 600 {
				_, err := box.Enqueue(t.Context(), tx, &ordering.Event{}, a)
				require.NoError(t, err)
			}
		})
		_, stop := start(t, box, newReceiver(), outbox.RelayConfig{})
		allSent(t, box)
		stop()
		n, err := box.Prune(t.Context())
		require.NoError(t, err)
		assert.Zero(t, n)
		_, err = db.Exec(`UPDATE outbox_events SET sent = sent - 3600000000`)
		require.NoError(t, err)
		put(t, box, db, "a", "b")
		n, err = box.Prune(t.Context())
		require.NoError(t, err)
		assert.Equal(t, int64(600), n)

		_, err = box.Fetch(t.Context(), ordering.Range{Stream: a, From: 3, To: 600})
		require.ErrorIs(t, err, replay.ErrNotRetained)
		answer, err := box.Fetch(t.Context(), ordering.Range{Stream: a, From: 3, To: 601})
		require.NoError(t, err)
		require.Len(t, answer.Events, 1, "what is there is answered")
		assert.Empty(t, answer.NoSuch)
		assert.Equal(t, "a=602", ordering.FormatSequenceID(put(t, box, db, "a").Positions))
		var positions int
		require.NoError(t, db.QueryRow(`SELECT count(*) FROM outbox_positions`).Scan(&positions))
		assert.Equal(t, 3, positions)
	})
}

// What was skipped never existed, even after its retention. What is parked can
// be asked for, and what cannot be read hides nothing else.
func TestFetchParkedAndSkipped(t *testing.T) {
	a := lockkeys.MustParse("a")
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{Retention: time.Hour})
		fetch := func(from, to uint64) (events, never []uint64, err error) {
			answer, err := box.Fetch(t.Context(), ordering.Range{Stream: a, From: from, To: to})
			for _, e := range answer.Events {
				p, _ := e.On(a)
				events = append(events, p.Number)
			}
			for _, r := range answer.NoSuch {
				require.Equal(t, r.From, r.To)
				never = append(never, r.From)
			}
			return events, never, err
		}
		check := func(from, to uint64, wantEvents, wantNever []uint64) {
			t.Helper()
			events, never, err := fetch(from, to)
			require.NoError(t, err)
			assert.Equal(t, wantEvents, events)
			assert.Equal(t, wantNever, never)
		}
		put(t, box, db, "a")
		putHuge(t, box, db, "second", "a", "b")
		putHuge(t, box, db, "third", "a")
		fourth := put(t, box, db, "a")
		put(t, box, db, "a")
		_, stop := start(t, box, choosy(), outbox.RelayConfig{})
		parked(t, box, 1)
		check(1, 9, upTo(5), nil)

		require.NoError(t, box.Skip(t.Context(), "second"))
		require.Eventually(t, func() bool { return parked(t, box, 1)[0].Event == "third" }, waitAtMost, time.Millisecond)
		check(1, 9, []uint64{1, 3, 4, 5}, []uint64{2})
		check(2, 2, nil, []uint64{2})
		answer, err := box.Fetch(t.Context(), ordering.Range{Stream: lockkeys.MustParse("b"), From: 1, To: 1})
		require.NoError(t, err)
		assert.Equal(t, replay.Answer{NoSuch: []ordering.Range{{Stream: lockkeys.MustParse("b"), From: 1, To: 1}}}, answer, "on all its streams")

		_, err = db.Exec(`UPDATE outbox_events SET body = '' WHERE name IN ('second', 'third', $1)`, fourth.ID)
		require.NoError(t, err)
		check(1, 9, []uint64{1, 5}, []uint64{2})
		check(2, 4, nil, []uint64{2})
		_, _, err = fetch(3, 4)
		require.ErrorContains(t, err, "outbox: fetch a: 3 to 4: outbox: the event in row")
		assert.True(t, dispatcher.IsPermanent(err), "the other streams of this source are asked for all the same")

		require.NoError(t, box.Skip(t.Context(), "third"))
		require.NoError(t, box.Skip(t.Context(), parked(t, box, 1)[0].Event))
		allSent(t, box)
		stop()
		check(1, 9, []uint64{1, 5}, []uint64{2, 3, 4})
		_, err = db.Exec(`UPDATE outbox_events SET sent = sent - 7200000000`)
		require.NoError(t, err)
		n, err := box.Prune(t.Context())
		require.NoError(t, err)
		assert.Equal(t, int64(5), n)
		check(1, 9, nil, []uint64{2, 3, 4})
		_, _, err = fetch(5, 5)
		assert.ErrorIs(t, err, replay.ErrNotRetained)
	})
}

// An active relay deletes what is not retained, and an event that fails is
// tried again after the time it should wait.
func TestRelayInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sql.Open("sqlite", ":memory:")
		require.NoError(t, err)
		defer db.Close()
		db.SetMaxOpenConns(1)
		box, err := outbox.New(t.Context(), db, outbox.SQLite, outbox.Config{Retention: time.Hour})
		require.NoError(t, err)
		put(t, box, db, "a")
		began := time.Now()
		var attempts []time.Duration
		publisher := outbox.PublisherFunc(func(context.Context, *ordering.Event) error {
			attempts = append(attempts, time.Since(began))
			if len(attempts) < 8 {
				return errors.New("not yet")
			}
			return nil
		})
		relay, err := outbox.NewRelay(box, publisher, outbox.RelayConfig{Backoff: dispatcher.Backoff{Max: 2 * time.Second}, Poll: 10 * time.Second})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- relay.Run(ctx) }()
		time.Sleep(2 * time.Minute)
		s, err := box.Stats(t.Context())
		require.NoError(t, err)
		assert.Zero(t, s.Unsent)
		require.Len(t, attempts, 8)
		wait := 100 * time.Millisecond
		for i := 1; i < len(attempts); i++ {
			assert.InDelta(t, wait, attempts[i]-attempts[i-1], float64(wait/2)+1)
			wait = min(2*wait, 2*time.Second)
		}
		_, err = box.Fetch(t.Context(), ordering.Range{Stream: lockkeys.MustParse("a"), From: 1, To: 1})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		_, err = box.Fetch(t.Context(), ordering.Range{Stream: lockkeys.MustParse("a"), From: 1, To: 1})
		require.ErrorIs(t, err, replay.ErrNotRetained)
		cancel()
		require.NoError(t, <-done)
	})
}
