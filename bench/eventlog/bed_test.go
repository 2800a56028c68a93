package eventlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/eventlog"
)

// bed is a fresh database with a log, and a table of events as one would write it.
type bed struct {
	store  *sqlstore.Store
	log    *eventlog.Log
	insert *sql.Stmt // into the table: prepared once, as the statements of the log are
}

// database is a kind of database, with the type of a number that it gives itself.
type database struct {
	name, serial string
	dialect      eventlog.Dialect
	open         func(t testing.TB) (*sqlstore.Store, error)
}

var onSQLite = database{"SQLite", "INTEGER PRIMARY KEY AUTOINCREMENT", eventlog.SQLite, func(t testing.TB) (*sqlstore.Store, error) {
	return sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"))
}}

var databases = []database{
	onSQLite,
	{"PostgreSQL", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", eventlog.PostgreSQL, func(t testing.TB) (*sqlstore.Store, error) {
		return postgres.Open(t.Context(), pgtest.Start(t).Database(t))
	}},
}

func (d database) bed(t testing.TB) *bed {
	store, err := d.open(t)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	log, err := eventlog.New(t.Context(), store.DB(), d.dialect, eventlog.Config{})
	require.NoError(t, err)
	require.NoError(t, store.Migrate(t.Context(), "bench", []string{
		`CREATE TABLE events (place ` + d.serial + `, stream TEXT NOT NULL, version BIGINT NOT NULL, id TEXT NOT NULL UNIQUE,
			type TEXT NOT NULL, at BIGINT NOT NULL, body TEXT NOT NULL, UNIQUE (stream, version))`,
		`CREATE TABLE effects (place BIGINT PRIMARY KEY, type TEXT NOT NULL)`,
	}))
	insert, err := store.Prepare(t.Context(), `INSERT INTO events (stream, version, id, type, at, body) VALUES ($1, $2, $3, $4, $5, $6)`)
	require.NoError(t, err)
	return &bed{store, log, insert}
}

// body is what an event of an order system has.
const body = `{"order":"9b2f6c1e","product":"kettle","quantity":2,"price":3990,"currency":"EUR","customer":"4711"}`

// placed returns some events of a stream.
func placed(stream lockkeys.Key, some int) []*ordering.Event {
	events := make([]*ordering.Event, some)
	for j := range events {
		events[j] = &ordering.Event{Type: "order-placed", Payload: []byte(body), Positions: []ordering.Position{{Stream: stream}}}
	}
	return events
}

// appender makes n appends of some events each, in a transaction of their own, as they are
// made by writers who each have streams of their own.
type appender func(b *bed, ctx context.Context, n, some int) error

var appenders = []struct {
	name string
	add  appender
}{{"log", (*bed).appendByLog}, {"hand", (*bed).appendByHand}}

const writers = 8

// run has the writers do something n times in all.
func run(n int, each func(writer, i int) error) error {
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		all.Go(func() {
			for i := int(next.Add(1)); i <= n && errs[w] == nil; i = int(next.Add(1)) {
				errs[w] = each(w, i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (b *bed) appendByLog(ctx context.Context, n, some int) error {
	return run(n, func(w, i int) error {
		events := placed(lockkeys.Must("order", fmt.Sprint(w), fmt.Sprint(i%1000)), some)
		return b.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := b.log.Append(ctx, tx, events)
			return err
		})
	})
}

// appendByHand uses the table, whose order is no order of commits.
func (b *bed) appendByHand(ctx context.Context, n, some int) error {
	var versions [writers]map[string]int
	for w := range versions {
		versions[w] = map[string]int{}
	}
	return run(n, func(w, i int) error {
		stream := fmt.Sprintf("order/%d/%d", w, i%1000)
		version := versions[w][stream]
		versions[w][stream] += some
		return b.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			insert := tx.StmtContext(ctx, b.insert)
			for j := range some {
				_, err := insert.ExecContext(ctx, stream, version+j+1, fmt.Sprintf("%d-%d-%d", w, i, j), "order-placed", 1_700_000_000_000_000+i, body)
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// subscribe makes a row of each entry.
func (b *bed) subscribe(t testing.TB, together bool) *eventlog.Subscription {
	config := eventlog.SubscriptionConfig{Name: "rows", Store: b.store,
		Handler: sqlstore.InTx(b.store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[eventlog.Entry]) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO effects (place, type) VALUES ($1, $2)`, int64(job.Value.At.Place()), job.Value.Event.Type)
			return err
		})}
	if together {
		config.Together = b.store.Together
	}
	s, err := eventlog.Subscribe(t.Context(), b.log, config)
	require.NoError(t, err)
	return s
}
