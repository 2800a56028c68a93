package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
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

var errAway = errors.New("the receiver is away")

// moody delays, fails, panics and loses confirmations.
func moody(seed uint64) *receiver {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 1))
	chance := func(n int) bool {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n) == 0
	}
	r := newReceiver()
	r.before = func(ctx context.Context, _ *ordering.Event, _ int) error {
		for chance(2) {
			runtime.Gosched()
		}
		if chance(20) {
			return errAway
		}
		return nil
	}
	r.after = func(ctx context.Context, _ *ordering.Event, _ int) error {
		if chance(20) {
			<-ctx.Done() // no confirmation comes
			return ctx.Err()
		}
		return nil
	}
	return r
}

var streamSets = [][]string{{"a"}, {"a"}, {"b"}, {"a", "b"}, {"c", "a"}, {"c"}, {"d"}, {"b", "d", "c"}, {"e"}}

func TestRelayKeepsOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		r := moody(7)
		relay, stop := start(t, box, r, outbox.RelayConfig{Window: 4, Timeout: 20 * time.Millisecond, Backoff: dispatcher.Backoff{Max: 2 * time.Millisecond}})
		want := map[string]int{}
		var mu sync.Mutex
		var producers sync.WaitGroup
		for producer := range 3 {
			producers.Go(func() {
				for i := range 40 {
					streams := streamSets[(i*7+producer)%len(streamSets)]
					put(t, box, db, streams...)
					mu.Lock()
					for _, s := range streams {
						want[s]++
					}
					mu.Unlock()
				}
			})
		}
		producers.Wait()
		allSent(t, box)
		stop()
		r.check(t)
		for stream, n := range want {
			assert.Len(t, r.numbers(stream), n, stream)
		}
		s := relay.Stats()
		assert.Equal(t, uint64(120), s.Confirmed)
		assert.NotZero(t, s.Failures)
		assert.False(t, s.Active)
		assert.Zero(t, s.Sending+s.Failing)
	})
}

// Two transactions overlap; the one that began later, and has the larger row
// ID, commits first. Relays that remember the last ID lose the other event.
func TestLateCommitIsNotLost(t *testing.T) {
	p := newPostgres(t)
	box, db := p.box(t, outbox.Config{})
	r := newReceiver()
	start(t, box, r, outbox.RelayConfig{})
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = box.Enqueue(t.Context(), tx, &ordering.Event{}, keys("early")...)
	require.NoError(t, err)
	put(t, box, db, "late")
	put(t, box, db, "late")
	allSent(t, box)
	assert.Empty(t, r.numbers("early"))
	assert.Equal(t, upTo(2), r.numbers("late"))

	// A producer of the same stream waits until the first one has ended.
	second := make(chan *ordering.Event)
	go func() { second <- put(t, box, db, "early", "late") }()
	waiting := func() bool {
		var n int
		err := db.QueryRow(`SELECT count(*) FROM pg_locks WHERE NOT granted`).Scan(&n)
		return err == nil && n > 0
	}
	require.Eventually(t, waiting, waitAtMost, time.Millisecond)
	require.NoError(t, tx.Commit())
	assert.Equal(t, "early=2, late=3", ordering.FormatSequenceID((<-second).Positions))
	allSent(t, box)
	r.check(t)
	assert.Equal(t, upTo(2), r.numbers("early"))
}

func TestFailingStreamHoldsNobodyElse(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		fails := make(chan struct{})
		r := newReceiver()
		r.before = func(_ context.Context, e *ordering.Event, _ int) error {
			if _, ok := e.On(lockkeys.MustParse("bad")); ok {
				select {
				case <-fails:
				default:
					return errAway
				}
			}
			return nil
		}
		relay, _ := start(t, box, r, outbox.RelayConfig{Window: 1})
		for range 3 {
			put(t, box, db, "bad")
		}
		put(t, box, db, "bad", "good") // good=1 waits for bad=1 to 3
		for range 40 {
			put(t, box, db, "other")
		}
		require.Eventually(t, func() bool { return len(r.numbers("other")) == 40 }, waitAtMost, time.Millisecond)
		require.Eventually(t, func() bool { return relay.Stats().Failing == 1 }, waitAtMost, time.Millisecond)
		assert.Empty(t, r.numbers("good"))
		close(fails)
		allSent(t, box)
		r.check(t)
		assert.Equal(t, upTo(4), r.numbers("bad"))
		assert.Equal(t, upTo(1), r.numbers("good"))
	})
}

// An event with many streams is looked at once, not once for each of them.
func TestRelayManyStreams(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		streams := make([]string, 500)
		for i := range streams {
			streams[i] = fmt.Sprintf("a/%d", i)
		}
		put(t, box, db, streams...)
		put(t, box, db, "a/7")
		put(t, box, db, streams...)
		r := newReceiver()
		start(t, box, r, outbox.RelayConfig{})
		allSent(t, box)
		r.check(t)
		assert.Equal(t, upTo(3), r.numbers("a/7"))
		assert.Equal(t, upTo(2), r.numbers("a/8"))
	})
}

// While all that is tried fails there are no more attempts than the back-off
// and Poll allow, and all of it is sent once the receiver is back.
func TestReceiverIsAway(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		back := make(chan struct{})
		r := newReceiver()
		r.before = func(context.Context, *ordering.Event, int) error {
			select {
			case <-back:
				return nil
			default:
				return errAway
			}
		}
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		for range 3 {
			for _, name := range names {
				put(t, box, db, name)
			}
		}
		relay, _ := start(t, box, r, outbox.RelayConfig{Window: 2, MaxFailing: 4})
		require.Eventually(t, func() bool { return relay.Stats().Failures > 20 }, waitAtMost, time.Millisecond)
		assert.Equal(t, 4, relay.Stats().Failing)
		close(back)
		allSent(t, box)
		r.check(t)
	})
}

// A publisher that panics, ends its goroutine or does not return in time has
// failed.
func TestPublisherMisbehaves(t *testing.T) {
	box, db := newSQLite(t).box(t, outbox.Config{})
	r := newReceiver()
	misbehave := outbox.PublisherFunc(func(ctx context.Context, e *ordering.Event) error {
		times := r.begin(e)
		defer r.end(e, errAway)
		switch times {
		case 0:
			panic("no broker")
		case 1:
			runtime.Goexit()
		case 2:
			<-ctx.Done()
			return ctx.Err()
		}
		r.arrive(e)
		return nil
	})
	relay, _ := start(t, box, misbehave, outbox.RelayConfig{Timeout: 50 * time.Millisecond})
	put(t, box, db, "a")
	allSent(t, box)
	assert.Equal(t, uint64(3), relay.Stats().Failures)
	assert.Equal(t, upTo(1), r.numbers("a"))
}

// Run ends when its context does: what is being published may still be
// confirmed, and is marked; nothing else is started.
func TestRunEndsGracefully(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		entered, leave := make(chan struct{}), make(chan struct{})
		r := newReceiver()
		r.after = func(ctx context.Context, _ *ordering.Event, _ int) error {
			close(entered)
			<-leave
			return ctx.Err()
		}
		for range 2 {
			put(t, box, db, "a")
		}
		relay, err := outbox.NewRelay(box, r, outbox.RelayConfig{Grace: time.Minute})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- relay.Run(ctx) }()
		<-entered
		cancel()
		close(leave)
		require.NoError(t, <-done)
		s, err := box.Stats(t.Context())
		require.NoError(t, err)
		assert.Equal(t, int64(1), s.Unsent)
		assert.Positive(t, s.Oldest)
		assert.Equal(t, upTo(1), r.numbers("a"))
	})
}

// After the grace time the contexts of what is being published end.
func TestRunEndsAfterGrace(t *testing.T) {
	box, db := newSQLite(t).box(t, outbox.Config{})
	entered := make(chan struct{})
	r := newReceiver()
	r.after = func(ctx context.Context, _ *ordering.Event, _ int) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}
	put(t, box, db, "a")
	_, stop := start(t, box, r, outbox.RelayConfig{Grace: time.Millisecond})
	<-entered
	stop()
	s, err := box.Stats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(1), s.Unsent)
}

func TestRunTwice(t *testing.T) {
	box, _ := newSQLite(t).box(t, outbox.Config{})
	relay, _ := start(t, box, newReceiver(), outbox.RelayConfig{})
	require.Eventually(t, func() bool { return relay.Stats().Active }, waitAtMost, time.Millisecond)
	assert.ErrorIs(t, relay.Run(t.Context()), outbox.ErrRunning)
}

// Of two relays on PostgreSQL one works, and the other takes over.
func TestTwoRelays(t *testing.T) {
	p := newPostgres(t)
	box, db := p.box(t, outbox.Config{})
	other, otherDB := p.box(t, outbox.Config{})
	r := newReceiver()
	first, stop := start(t, box, r, outbox.RelayConfig{})
	require.Eventually(t, func() bool { return first.Stats().Active }, waitAtMost, time.Millisecond)
	second, _ := start(t, other, r, outbox.RelayConfig{})
	put(t, box, db, "a")
	put(t, other, otherDB, "a")
	allSent(t, box)
	assert.Zero(t, second.Stats().Confirmed)
	assert.False(t, second.Stats().Active)

	stop()
	put(t, box, db, "a")
	allSent(t, box)
	assert.Equal(t, uint64(1), second.Stats().Confirmed)

	// The third takes over when the server cuts the second's connection.
	third, _ := start(t, box, r, outbox.RelayConfig{})
	cut(t, db)
	for range 5 {
		put(t, box, db, "a")
	}
	allSent(t, box)
	require.Eventually(t, func() bool { return second.Stats().Active != third.Stats().Active }, waitAtMost, time.Millisecond)
	r.check(t)
	assert.Equal(t, upTo(8), r.numbers("a"))
}

// cut ends the connection that holds an advisory lock.
func cut(t *testing.T, db *sql.DB) {
	t.Helper()
	_, err := db.Exec(`SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	require.NoError(t, err)
}

// On SQLite nothing keeps two relays apart: everything comes twice perhaps,
// but for the first time in order.
func TestTwoRelaysOnSQLite(t *testing.T) {
	box, db := newSQLite(t).box(t, outbox.Config{})
	var mu sync.Mutex
	last := map[lockkeys.Key]uint64{}
	publisher := outbox.PublisherFunc(func(_ context.Context, e *ordering.Event) error {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range e.Positions {
			assert.LessOrEqual(t, p.Number, last[p.Stream]+1)
			last[p.Stream] = max(last[p.Stream], p.Number)
		}
		return nil
	})
	start(t, box, publisher, outbox.RelayConfig{})
	start(t, box, publisher, outbox.RelayConfig{})
	for i := range 100 {
		put(t, box, db, streamSets[i%len(streamSets)]...)
	}
	allSent(t, box)
}

func TestConfig(t *testing.T) {
	box, db := newSQLite(t).box(t, outbox.Config{})
	_, err := outbox.New(t.Context(), nil, 9, outbox.Config{})
	require.ErrorIs(t, err, outbox.ErrConfig)
	for _, text := range []string{"database is nil", "dialect is unknown"} {
		assert.ErrorContains(t, err, text)
	}
	_, err = outbox.NewRelay(nil, nil, outbox.RelayConfig{Window: -1, MaxBytes: -1, Timeout: -1, Backoff: dispatcher.Backoff{Initial: -2, Max: -3}, MaxAttempts: -1, MaxFailing: -1, Poll: -1, Grace: -1})
	require.ErrorIs(t, err, outbox.ErrConfig)
	for _, text := range []string{"outbox is nil", "publisher is nil", "Window", "MaxBytes", "Timeout", "Backoff.Initial is", "Backoff.Max is", "MaxAttempts", "MaxFailing", "Poll", "Grace"} {
		assert.ErrorContains(t, err, text)
	}
	p := newPostgres(t)
	pg, pgDB := p.box(t, outbox.Config{})
	pgDB.SetMaxOpenConns(1)
	_, err = outbox.NewRelay(pg, newReceiver(), outbox.RelayConfig{})
	assert.ErrorIs(t, err, outbox.ErrConfig)
	_, err = outbox.New(t.Context(), pgDB, outbox.PostgreSQL, outbox.Config{})
	assert.NoError(t, err, "one connection is enough to enqueue")

	_, err = db.Exec(`UPDATE schema_versions SET version = 1000 WHERE component = 'outbox'`)
	require.NoError(t, err)
	_, err = outbox.New(t.Context(), db, outbox.SQLite, outbox.Config{})
	assert.ErrorIs(t, err, outbox.ErrSchema)
	require.NoError(t, db.Close())
	_, err = box.Stats(t.Context())
	assert.ErrorContains(t, err, "outbox: stats")
	_, err = box.Fetch(t.Context(), ordering.Range{Stream: lockkeys.MustParse("a"), From: 1, To: 1})
	assert.ErrorContains(t, err, "outbox: fetch a: 1")
}
