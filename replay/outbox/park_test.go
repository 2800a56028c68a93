package outbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/outbox"
)

var errHuge = errors.New("larger than the broker takes")

// huge is the type of events that the broker of a test refuses.
const huge = "huge"

// choosy refuses huge events for good.
func choosy() *receiver {
	r := newReceiver()
	r.before = func(_ context.Context, e *ordering.Event, _ int) error {
		if e.Type == huge {
			return dispatcher.Permanent(errHuge)
		}
		return nil
	}
	return r
}

// putHuge enqueues an event that choosy refuses, and commits it.
func putHuge(t testing.TB, box *outbox.Outbox, db *sql.DB, id string, streams ...string) {
	t.Helper()
	inTx(t, db, func(tx *sql.Tx) {
		_, err := box.Enqueue(t.Context(), tx, &ordering.Event{ID: id, Type: huge}, keys(streams...)...)
		require.NoError(t, err)
	})
	box.Notify()
}

// parked waits until events are parked, n of them.
func parked(t testing.TB, box *outbox.Outbox, n int) (list []outbox.Parked) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		list, err = box.Parked(t.Context())
		return err == nil && len(list) == n
	}, waitAtMost, time.Millisecond)
	return list
}

// arrive waits until the numbers have arrived on a stream, and checks that
// these have and no others.
func arrive(t testing.TB, r *receiver, stream string, numbers ...uint64) {
	t.Helper()
	require.Eventually(t, func() bool { return len(r.numbers(stream)) >= len(numbers) }, waitAtMost, time.Millisecond, stream)
	assert.Equal(t, numbers, r.numbers(stream), stream)
}

func (r *receiver) attempts(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.times[id]
}

// An event that no broker takes parks its two streams, over a restart; an
// operator, at another connection, looks at it and skips it.
func TestEventThatCannotBeSent(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		operator, _ := p.box(t, outbox.Config{})
		r := choosy()
		relay, stop := start(t, box, r, outbox.RelayConfig{})
		put(t, box, db, "a")
		putHuge(t, box, db, "report", "b", "a")
		put(t, box, db, "a")
		put(t, box, db, "b", "c")
		put(t, box, db, "d")

		list := parked(t, operator, 1)
		assert.Equal(t, "report", list[0].Event)
		assert.Equal(t, "a=2, b=1", ordering.FormatSequenceID(list[0].Positions))
		assert.Equal(t, errHuge.Error(), list[0].Error)
		assert.Equal(t, 1, list[0].Attempts)
		assert.WithinDuration(t, time.Now(), list[0].Since, time.Minute)
		require.Eventually(t, func() bool { return relay.Stats().Parked == 1 }, waitAtMost, time.Millisecond)

		seen, err := operator.View(t.Context(), view.Query{})
		require.NoError(t, err)
		assert.Equal(t, []string{"1 events are parked: an operator must decide"}, seen.Problems)
		metrics, err := operator.Metrics(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "interlock.parked.messages", metrics[2].Name)
		assert.Equal(t, view.One(1), metrics[2].Points)
		require.Len(t, seen.Tables[0].Rows, 1)
		row := seen.Tables[0].Rows[0]
		assert.Equal(t, []string{"report", "a=2, b=1", "1", errHuge.Error()}, row.Cells[:4])
		assert.Equal(t, "report", row.Target)
		require.True(t, row.Opens)
		payloads, err := operator.Payloads(t.Context(), row.Target)
		require.NoError(t, err)
		require.Len(t, payloads, 1)
		assert.ElementsMatch(t, list[0].Positions, payloads[0].Message.(*ordering.Event).Positions)
		_, err = operator.Payloads(t.Context(), "other")
		require.ErrorIs(t, err, outbox.ErrNotParked)
		require.ErrorIs(t, operator.Act(t.Context(), view.Action{Name: "burn", Target: "report"}), view.ErrAction)
		require.ErrorIs(t, operator.Act(t.Context(), view.Action{Name: view.Skip, Target: "other"}), outbox.ErrNotParked)

		t.Log("other streams do not notice")
		arrive(t, r, "d", 1)
		arrive(t, r, "a", 1)

		t.Log("a relay that starts anew leaves it alone")
		stop()
		relay, _ = start(t, box, r, outbox.RelayConfig{})
		put(t, box, db, "d")
		arrive(t, r, "d", 1, 2)
		assert.Equal(t, 1, r.attempts("report"))
		assert.Zero(t, relay.Stats().Parked)
		require.Eventually(t, func() bool {
			s, err := box.Stats(t.Context())
			return err == nil && s.Unsent == 3 && s.Parked == 1
		}, waitAtMost, time.Millisecond)

		t.Log("resumed in vain, it is parked again; skipped, what is behind it goes on")
		require.NoError(t, operator.Resume(t.Context(), "report"))
		require.Eventually(t, func() bool { return relay.Stats().Parked == 1 }, waitAtMost, time.Millisecond)
		assert.Equal(t, 2, r.attempts("report"))
		require.NoError(t, operator.Skip(t.Context(), "report"))
		arrive(t, r, "a", 1, 3)
		arrive(t, r, "b", 2)
		arrive(t, r, "c", 1)
		assert.Empty(t, parked(t, box, 0))
		assert.Equal(t, "b=3, a=4", ordering.FormatSequenceID(put(t, box, db, "b", "a").Positions), "its numbers stay used")
		allSent(t, box)

		var stream, event, reason string
		require.NoError(t, db.QueryRow(`SELECT stream, event, error FROM outbox_skipped WHERE number = 1`).Scan(&stream, &event, &reason))
		assert.Equal(t, []string{"b", "report", errHuge.Error()}, []string{stream, event, reason})
	})
}

// After MaxAttempts an event is parked; resumed when its receiver is back it
// has as many again.
func TestMaxAttempts(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		r := newReceiver()
		r.before = func(_ context.Context, e *ordering.Event, times int) error {
			if p, bad := e.On(lockkeys.MustParse("bad")); bad && p.Number == 1 && times < 5 {
				return errAway
			}
			return nil
		}
		var log safeBuffer
		relay, err := outbox.NewRelay(box, r, outbox.RelayConfig{MaxAttempts: 3, Backoff: dispatcher.Backoff{Initial: time.Millisecond}, Poll: 20 * time.Millisecond,
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
		require.NoError(t, err)
		run(t, relay)
		bad := put(t, box, db, "bad")
		put(t, box, db, "bad")
		put(t, box, db, "good")
		assert.Equal(t, 3, parked(t, box, 1)[0].Attempts)
		arrive(t, r, "good", 1)
		assert.Equal(t, 3, r.attempts(bad.ID))
		require.Eventually(t, func() bool { return relay.Stats().Parked == 1 }, waitAtMost, time.Millisecond)
		assert.Contains(t, log.String(), "event="+bad.ID+" position=\"bad=1\" attempts=3 err=")
		assert.Zero(t, relay.Stats().Failing)

		require.NoError(t, box.Resume(t.Context(), bad.ID))
		allSent(t, box)
		r.check(t)
		assert.Equal(t, 6, r.attempts(bad.ID))
	})
}

// run is start, for a relay that was made already.
func run(t *testing.T, relay *outbox.Relay) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	t.Cleanup(func() { cancel(); assert.NoError(t, <-done) })
}

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A row that cannot be read parks its streams as soon as it is the next one.
func TestEventThatCannotBeRead(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		put(t, box, db, "a")
		put(t, box, db, "a")
		bad := put(t, box, db, "a")
		put(t, box, db, "a")
		worse := put(t, box, db, "b", "c")
		put(t, box, db, "c", "d")
		put(t, box, db, "e")
		var body []byte
		require.NoError(t, db.QueryRow(`SELECT body FROM outbox_events WHERE name = $1`, bad.ID).Scan(&body))
		_, err := db.Exec(`UPDATE outbox_events SET body = '{"positions"' WHERE name IN ($1, $2)`, bad.ID, worse.ID)
		require.NoError(t, err)

		r := newReceiver()
		relay, _ := start(t, box, r, outbox.RelayConfig{})
		list := parked(t, box, 2)
		slices.SortFunc(list, func(a, b outbox.Parked) int { return len(a.Positions) - len(b.Positions) })
		assert.Equal(t, "a=3", ordering.FormatSequenceID(list[0].Positions))
		assert.Equal(t, "b=1, c=1", ordering.FormatSequenceID(list[1].Positions))
		for i, e := range []*ordering.Event{bad, worse} {
			assert.Equal(t, e.ID, list[i].Event)
			assert.Contains(t, list[i].Error, "cannot be read")
			assert.Zero(t, list[i].Attempts)
		}
		arrive(t, r, "e", 1)
		arrive(t, r, "a", 1, 2)
		require.Eventually(t, func() bool { return relay.Stats().Parked == 2 }, waitAtMost, time.Millisecond)

		t.Log("one is mended by hand, the other one is given up")
		_, err = db.Exec(`UPDATE outbox_events SET body = $1 WHERE name = $2`, body, bad.ID)
		require.NoError(t, err)
		require.NoError(t, box.Resume(t.Context(), bad.ID))
		require.NoError(t, box.Skip(t.Context(), worse.ID))
		allSent(t, box)
		arrive(t, r, "a", 1, 2, 3, 4)
		arrive(t, r, "c", 2)
		arrive(t, r, "d", 1)
		assert.Empty(t, r.numbers("b"))
	})
}

// An attempt that was cut short since the relay ends does not park its event,
// and the text of an error may be anything.
func TestLastAttempt(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		entered := make(chan struct{}, 1)
		r := newReceiver()
		r.before = func(ctx context.Context, _ *ordering.Event, times int) error {
			if times > 0 {
				return errors.New("\x00\xff" + strings.Repeat("é", 5000))
			}
			entered <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		put(t, box, db, "a")
		_, stop := start(t, box, r, outbox.RelayConfig{MaxAttempts: 1, Grace: time.Millisecond})
		<-entered
		stop()
		parked(t, box, 0)

		start(t, box, r, outbox.RelayConfig{MaxAttempts: 1})
		text := parked(t, box, 1)[0].Error
		assert.True(t, strings.HasPrefix(text, "\uFFFD\uFFFDéé"))
		assert.Less(t, len(text), 5000)
	})
}

// Tables of the version before events could be parked, with events as JSON, and streams and
// types in full, are brought up to date, with what is in them.
func TestOlderTables(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		events := []*ordering.Event{put(t, box, db, "b")}
		_, stop := start(t, box, newReceiver(), outbox.RelayConfig{})
		allSent(t, box)
		stop()
		events = append(events, put(t, box, db, "c"), put(t, box, db, "a"))
		inTx(t, db, func(tx *sql.Tx) {
			e, err := box.Enqueue(t.Context(), tx, &ordering.Event{Type: "typed", CorrelationID: "a", CausationID: "c"}, keys("a", "b")...)
			require.NoError(t, err)
			events = append(events, e)
		})
		toVersion6(t, p, db, events)

		box, db = p.box(t, outbox.Config{})
		answer, err := box.Fetch(t.Context(), ordering.Range{Stream: lockkeys.MustParse("b"), From: 1, To: 2, Before: 10})
		require.NoError(t, err)
		require.Len(t, answer.Events, 2)
		for i, want := range []*ordering.Event{events[0], events[3]} {
			assert.Equal(t, want.Hash(), answer.Events[i].Hash())
			assert.Equal(t, want.Positions, answer.Events[i].Positions)
		}
		require.Len(t, answer.Before, 1)
		assert.Equal(t, events[2].ID, answer.Before[0].ID)
		r := choosy()
		start(t, box, r, outbox.RelayConfig{})
		putHuge(t, box, db, "report", "a")
		parked(t, box, 1)
		require.NoError(t, box.Skip(t.Context(), "report"))
		put(t, box, db, "a", "d")
		allSent(t, box)
		arrive(t, r, "a", 1, 2, 4)
		arrive(t, r, "b", 2)
		arrive(t, r, "c", 1)
		arrive(t, r, "d", 1)
	})
}

// toVersion6 makes the tables of an outbox what they were in an old version, with these
// events.
func toVersion6(t testing.TB, p place, db *sql.DB, events []*ordering.Event) {
	text := "TEXT"
	if p.dialect == outbox.PostgreSQL {
		text = `TEXT COLLATE "C"`
		_, err := db.Exec(`ALTER TABLE outbox_events ALTER COLUMN body TYPE TEXT USING ''`)
		require.NoError(t, err)
	}
	for _, e := range events {
		body, err := json.Marshal(e)
		require.NoError(t, err)
		_, err = db.Exec(`UPDATE outbox_events SET body = $1 WHERE name = $2`, string(body), e.ID)
		require.NoError(t, err)
	}
	for _, statement := range []string{
		`CREATE TABLE older_positions (stream ` + text + ` NOT NULL, number BIGINT NOT NULL, event BIGINT NOT NULL,
			sent BOOLEAN NOT NULL DEFAULT FALSE, PRIMARY KEY (stream, number))`,
		`INSERT INTO older_positions SELECT s.stream, p.number, p.event, p.sent FROM outbox_positions p JOIN outbox_streams s ON s.id = p.stream`,
		`DROP TABLE outbox_positions`,
		`ALTER TABLE older_positions RENAME TO outbox_positions`,
		`CREATE INDEX outbox_positions_event ON outbox_positions (event)`,
		`CREATE INDEX outbox_positions_unsent ON outbox_positions (stream, number) WHERE NOT sent`,
		`CREATE TABLE older_streams (stream ` + text + ` PRIMARY KEY, last BIGINT NOT NULL, ended BIGINT NOT NULL)`,
		`INSERT INTO older_streams SELECT stream, last, ended FROM outbox_streams`,
		`DROP TABLE outbox_streams`,
		`ALTER TABLE older_streams RENAME TO outbox_streams`,
		`DROP TABLE outbox_parked`, `DROP TABLE outbox_skipped`, `DROP INDEX outbox_events_prunable`,
		`ALTER TABLE outbox_events DROP COLUMN kept`, `DROP INDEX outbox_events_unsent`,
		`ALTER TABLE outbox_events DROP COLUMN type`, `DROP TABLE outbox_types`,
		`CREATE INDEX outbox_events_sent ON outbox_events (sent, created)`,
		`UPDATE schema_versions SET version = 6 WHERE component = 'outbox'`,
	} {
		_, err := db.Exec(statement)
		require.NoError(t, err, statement)
	}
}
