// Package sqlite opens stores in SQLite databases, by the driver
// modernc.org/sqlite, which is written in Go.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// readers is the most connections that read at the same time.
const readers = 4

// Open opens the database at path and makes it if it is not there. Commits
// survive a crash of the machine: the database has a write-ahead log and
// synchronous=FULL. It belongs to the store alone, see [sqlstore.NewSQLite].
// The error names the path, and wraps [ordering.ErrSchema] for a database of a
// newer program.
func Open(ctx context.Context, path string) (*sqlstore.Store, error) {
	store, err := open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	return store, nil
}

func open(ctx context.Context, path string) (*sqlstore.Store, error) {
	writes, err := connect(path, 1)
	if err != nil {
		return nil, err
	}
	reads, err := connect(path, readers)
	if err != nil {
		return nil, errors.Join(err, writes.Close())
	}
	return sqlstore.NewSQLite(ctx, writes, reads)
}

func connect(path string, connections int) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	options := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "temp_store(MEMORY)"}, "_txlock": {"immediate"}}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: options.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}
