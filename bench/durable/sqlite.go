package durable

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"

	sqlitestore "github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// MeasureSQLite writes the ledger into SQLite databases with a write-ahead log
// and synchronous=FULL: message by message, by hand in groups as large as the
// sequencer's are, and by the sequencer.
func MeasureSQLite(ctx context.Context, load Load, workers, rounds, n int) (t Throughput, err error) {
	dir, remove, err := tempDir()
	if err != nil {
		return t, err
	}
	defer remove()
	t = Throughput{Database: "SQLite", Load: load, Workers: workers, Entries: n}
	if t.Flush, err = flushCost(dir); err != nil {
		return t, err
	}
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "interlock.db"))
	if err != nil {
		return t, err
	}
	ours, err := newInterlock(ctx, sqlite, workers, store)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	one, err := sqliteFloor(ctx, filepath.Join(dir, "one.db"))
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, one.close()) }()
	grouped, err := sqliteFloor(ctx, filepath.Join(dir, "grouped.db"))
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, grouped.close()) }()

	entries, group := 0, groupOf(load, 1) // until there are any
	t.Rows, err = race(ctx, load, rounds, n, []contender{
		{OneByOne, func(ctx context.Context, e []entry) error { return one.run(ctx, e, 1) }, one.db},
		{Interlock, func(ctx context.Context, e []entry) error {
			err := ours.run(ctx, e)
			entries += len(e)
			t.Group = float64(entries) / float64(store.Commits())
			group = groupOf(load, t.Group)
			return err
		}, store.DB()},
		{ByHand, func(ctx context.Context, e []entry) error { return grouped.run(ctx, e, group) }, grouped.db},
	})
	return t, err
}

func sqliteFloor(ctx context.Context, path string) (*floor, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	return newFloor(ctx, sqlite, db)
}
