// Package sqlite opens stores in SQLite databases, by the driver
// modernc.org/sqlite, which is written in Go.
//
// # Two processes
//
// A database has one holder: the process, or the store in it, that opened it
// last. Opening waits for a transaction of the one before that is under way, 10
// seconds at most, and then fails with SQLITE_BUSY; so one that is frozen in a
// transaction keeps the database until it is ended. What the one before has
// committed is there for the new one. Whatever it commits, skips, parks, holds or
// writes from then on is refused with [ordering.ErrFenced], with its effect,
// and also if nobody else uses its streams: it has lost all of them, for good.
// Nothing tells it before. It can still read, by its store's methods and by
// Store.DB, and sees what the new one commits.
//
// So two processes that take turns to open the database again when they are
// refused only keep each other from working: let one of them end.
package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	driver "modernc.org/sqlite"

	"github.com/interlock-go/interlock/internal/sqlitefile"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// The most connections that read at the same time, for the store and for its
// callers, and after which time one that nobody needs is closed.
const (
	readers  = 4
	callers  = 16
	idleTime = 5 * time.Minute
)

// Open opens the database at path and makes it if it is not there, as a file
// that only its owner can read and write. Commits survive a crash of the
// machine: the database has a write-ahead log and synchronous=FULL. It belongs
// to the store alone, see [sqlstore.NewSQLite].
//
// A database that has tables, but neither of a store nor of an outbox, is
// refused with [ErrForeign] and stays as it is; [OpenBeside] takes it. The error
// names the path, and wraps [ordering.ErrSchema] for a database of a newer
// program.
func Open(ctx context.Context, path string) (*sqlstore.Store, error) {
	return openNamed(ctx, path, inspect)
}

// OpenBeside is Open for a database that may have tables of the caller's
// already. It gets a write-ahead log, and the store's tables beside them.
func OpenBeside(ctx context.Context, path string) (*sqlstore.Store, error) {
	return openNamed(ctx, path, func(context.Context, string) error { return nil })
}

func openNamed(ctx context.Context, path string, inspect func(ctx context.Context, path string) error) (*sqlstore.Store, error) {
	store, err := open(ctx, path, inspect)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	return store, nil
}

func open(ctx context.Context, path string, inspect func(ctx context.Context, path string) error) (*sqlstore.Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := inspect(ctx, path); err != nil {
		return nil, err
	}
	if err := sqlitefile.Create(path); err != nil {
		return nil, err
	}
	source := address(path, options)
	writes, err := driver.NewConnector(source)
	if err != nil {
		return nil, err
	}
	if err := keepLog(ctx, writes); err != nil {
		return nil, err
	}
	return sqlstore.NewSQLite(ctx, sqlstore.SQLite{Writes: writes, Guard: Guard, Own: pool(writes, readers), Reads: pool(writes, callers)})
}

// keepLog gives the database its write-ahead log. Where several programs do so
// with a new one, SQLite tells all but one at once that it is locked, whatever
// time they would wait.
func keepLog(ctx context.Context, connector sqldriver.Connector) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		conn, err := connector.Connect(ctx)
		if err == nil {
			return conn.Close()
		}
		const busy = 5 // SQLITE_BUSY
		var e *driver.Error
		if !errors.As(err, &e) || e.Code()&0xff != busy {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func pool(connector sqldriver.Connector, connections int) *sql.DB {
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections) // to open one takes longer than most reads
	db.SetConnMaxIdleTime(idleTime)
	return db
}

// options are those of the driver, for every connection.
var options = url.Values{
	"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "temp_store(MEMORY)"},
	"_txlock": {"immediate"},
}.Encode()

// address is how the driver is told of a database.
func address(path, options string) string {
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: options}
	return dsn.String()
}
