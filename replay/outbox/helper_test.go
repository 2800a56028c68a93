package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/outbox"
)

// waitAtMost is after how long a test that waits counts as hanging, beside whatever
// else the machine does.
const waitAtMost = 5 * time.Minute

// place is a database of a test.
type place struct {
	dialect outbox.Dialect
	driver  string
	url     string
}

// everywhere runs a test on both databases.
func everywhere(t *testing.T, test func(t *testing.T, p place)) {
	t.Run("SQLite", func(t *testing.T) { test(t, newSQLite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, newPostgres(t)) })
}

func newSQLite(t testing.TB) place {
	return sqliteAt(filepath.Join(t.TempDir(), "outbox.db"))
}

func sqliteAt(path string) place {
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"_pragma": {"busy_timeout(20000)", "journal_mode(WAL)", "synchronous(NORMAL)"}, "_txlock": {"immediate"}}.Encode()}
	return place{outbox.SQLite, "sqlite", u.String()}
}

func newPostgres(t testing.TB) place { return postgresAt(t, postgres.Database(t)) }

// postgresAt makes the server find deadlocks soon.
func postgresAt(t testing.TB, database string) place {
	u, err := url.Parse(database)
	require.NoError(t, err)
	q := u.Query()
	q.Set("deadlock_timeout", "20ms")
	u.RawQuery = q.Encode()
	return place{outbox.PostgreSQL, "pgx", u.String()}
}

func (p place) open(t testing.TB) *sql.DB {
	db, err := sql.Open(p.driver, p.url)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

func (p place) box(t testing.TB, config outbox.Config) (*outbox.Outbox, *sql.DB) {
	db := p.open(t)
	box, err := outbox.New(t.Context(), db, p.dialect, config)
	require.NoError(t, err)
	return box, db
}

// inTx runs do in a transaction and commits it.
func inTx(t testing.TB, db *sql.DB, do func(tx *sql.Tx)) {
	t.Helper()
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	do(tx)
	require.NoError(t, tx.Commit())
}

// put enqueues an event on the streams given in text form and commits it.
func put(t testing.TB, box *outbox.Outbox, db *sql.DB, streams ...string) (e *ordering.Event) {
	t.Helper()
	inTx(t, db, func(tx *sql.Tx) {
		var err error
		e, err = box.Enqueue(t.Context(), tx, &ordering.Event{Payload: []byte("{}")}, keys(streams...)...)
		require.NoError(t, err)
	})
	box.Notify()
	return e
}

func keys(texts ...string) []lockkeys.Key {
	list := make([]lockkeys.Key, len(texts))
	for i, text := range texts {
		list[i] = lockkeys.MustParse(text)
	}
	return list
}

// start runs a relay until stop is called or the test ends.
func start(t testing.TB, box *outbox.Outbox, publisher outbox.Publisher, config outbox.RelayConfig) (relay *outbox.Relay, stop func()) {
	t.Helper()
	if config.Backoff.Initial == 0 {
		config.Backoff.Initial = time.Millisecond
	}
	if config.Backoff.Max == 0 {
		config.Backoff.Max = 20 * time.Millisecond
	}
	if config.Poll == 0 {
		config.Poll = 20 * time.Millisecond
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	relay, err := outbox.NewRelay(box, publisher, config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return relay, stop
}

// receiver is a publisher that keeps what it gets and checks the promises: two
// calls never overlap if their events share a stream, and an event comes for
// the first time only after every earlier one of its streams was confirmed.
type receiver struct {
	// before is called in Publish, with how often the event came before; an
	// error fails the attempt, before the event has arrived.
	before func(ctx context.Context, e *ordering.Event, times int) error
	// after is the same once it has arrived: the confirmation is lost.
	after func(ctx context.Context, e *ordering.Event, times int) error

	mu struct {
		sync.Mutex
		now      map[lockkeys.Key]string   // what is being published
		last     map[lockkeys.Key]uint64   // confirmed
		times    map[string]int            // by event
		arrived  map[lockkeys.Key][]uint64 // first arrivals
		problems []string
	}
}

func newReceiver() *receiver {
	r := &receiver{}
	r.mu.now, r.mu.last = map[lockkeys.Key]string{}, map[lockkeys.Key]uint64{}
	r.mu.times, r.mu.arrived = map[string]int{}, map[lockkeys.Key][]uint64{}
	return r
}

func (r *receiver) Publish(ctx context.Context, e *ordering.Event) error {
	times := r.begin(e)
	var err error
	if r.before != nil {
		err = r.before(ctx, e, times)
	}
	if err == nil {
		r.arrive(e)
		if r.after != nil {
			err = r.after(ctx, e, times)
		}
	}
	r.end(e, err)
	return err
}

func (r *receiver) begin(e *ordering.Event) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range e.Positions {
		if other, ok := r.mu.now[p.Stream]; ok {
			r.mu.problems = append(r.mu.problems, fmt.Sprintf("%v while %s is published", e.Positions, other))
		}
		if r.mu.last[p.Stream]+1 < p.Number {
			r.mu.problems = append(r.mu.problems, fmt.Sprintf("%v after %d", p, r.mu.last[p.Stream]))
		}
		r.mu.now[p.Stream] = e.ID
	}
	r.mu.times[e.ID]++
	return r.mu.times[e.ID] - 1
}

func (r *receiver) arrive(e *ordering.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range e.Positions {
		if !slices.Contains(r.mu.arrived[p.Stream], p.Number) {
			r.mu.arrived[p.Stream] = append(r.mu.arrived[p.Stream], p.Number)
		}
	}
}

func (r *receiver) end(e *ordering.Event, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range e.Positions {
		delete(r.mu.now, p.Stream)
		if err == nil {
			r.mu.last[p.Stream] = max(r.mu.last[p.Stream], p.Number)
		}
	}
}

// numbers returns the first arrivals of a stream.
func (r *receiver) numbers(stream string) []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.mu.arrived[lockkeys.MustParse(stream)])
}

func (r *receiver) check(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	assert.Empty(t, r.mu.problems)
	for stream, numbers := range r.mu.arrived {
		assert.Equal(t, upTo(len(numbers)), numbers, "stream %s", stream)
	}
}

// upTo returns 1 to n.
func upTo(n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = uint64(i + 1)
	}
	return list
}

// allSent waits until nothing is unsent.
func allSent(t testing.TB, box *outbox.Outbox) {
	t.Helper()
	require.Eventually(t, func() bool {
		s, err := box.Stats(t.Context())
		return err == nil && s.Unsent == 0
	}, waitAtMost, 5*time.Millisecond)
}
