package eventlog_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/eventlog"
)

// waitAtMost is after how long a test that waits counts as hanging, beside whatever
// else the machine does.
const waitAtMost = 2 * time.Minute

// place is a database of a test: a store, and the log beside it.
type place struct {
	dialect eventlog.Dialect
	path    string // or URL
}

// everywhere runs a test on both databases.
func everywhere(t *testing.T, test func(t *testing.T, p place)) {
	t.Run("SQLite", func(t *testing.T) { test(t, place{eventlog.SQLite, filepath.Join(t.TempDir(), "log.db")}) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, place{eventlog.PostgreSQL, server.Database(t)}) })
}

func (p place) store(ctx context.Context) (*sqlstore.Store, error) {
	if p.dialect == eventlog.SQLite {
		return sqlite.Open(ctx, p.path)
	}
	return postgres.Open(ctx, p.path)
}

// bed is what most tests need.
type bed struct {
	*eventlog.Log
	store *sqlstore.Store
	place place
}

func (p place) open(t testing.TB, config eventlog.Config) bed {
	t.Helper()
	store, err := p.store(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, store.Close()) })
	log, err := eventlog.New(t.Context(), store.DB(), p.dialect, config)
	require.NoError(t, err)
	return bed{log, store, p}
}

// append appends in a transaction of its own.
func (b bed) append(ctx context.Context, events []*ordering.Event, expected ...ordering.Position) (appended eventlog.Appended, err error) {
	ctx, cancel := context.WithTimeout(ctx, waitAtMost)
	defer cancel()
	err = b.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		appended, err = b.Append(ctx, tx, events, expected...)
		return err
	})
	b.Notify()
	return appended, err
}

// put appends one event each time, with this type, on the streams given in text form.
func (b bed) put(t testing.TB, kind string, streams ...string) eventlog.Entry {
	t.Helper()
	appended, err := b.append(t.Context(), []*ordering.Event{on("", kind, streams...)})
	require.NoError(t, err)
	return appended.Entries[0]
}

// on makes an event on the streams given in text form.
func on(id, kind string, streams ...string) *ordering.Event {
	e := &ordering.Event{ID: id, Type: kind}
	for _, s := range streams {
		e.Positions = append(e.Positions, ordering.Position{Stream: lockkeys.MustParse(s)})
	}
	return e
}

func at(stream string, number uint64) ordering.Position {
	return ordering.Position{Stream: lockkeys.MustParse(stream), Number: number}
}

// text is an entry in short.
func text(e eventlog.Entry) string {
	return fmt.Sprintf("%s: %s %s", e.At, e.Event.ID, ordering.FormatSequenceID(e.Event.Positions))
}

func texts(entries []eventlog.Entry) (list []string) {
	for _, e := range entries {
		list = append(list, text(e))
	}
	return list
}

// read returns what a query gives, and fails the test for an entry that cannot be read.
func (b bed) read(t testing.TB, q eventlog.Query) (entries []eventlog.Entry) {
	t.Helper()
	for e, err := range b.Read(t.Context(), q) {
		require.NoError(t, err)
		entries = append(entries, e)
	}
	return entries
}

// ids returns the IDs of what a query gives.
func (b bed) ids(t testing.TB, q eventlog.Query) (ids []string) {
	t.Helper()
	for _, e := range b.read(t, q) {
		ids = append(ids, e.Event.ID)
	}
	return ids
}
