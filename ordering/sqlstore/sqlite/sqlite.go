// Package sqlite opens stores in SQLite databases, with the driver
// modernc.org/sqlite, which is written in Go.
//
// # Two processes
//
// A database has one holder: the process, or the store in it, that opened it last.
// Opening waits for a running transaction of the previous holder, at most 10
// seconds, and then fails with SQLITE_BUSY; so a holder frozen in a transaction
// keeps the database until its process ends. The new holder sees everything that
// the previous one has committed. From then on all commits, skips, parkings,
// holdings and writes of the previous one are refused with [ordering.ErrFenced],
// with their effects, even if nobody else uses its streams: it has lost all of
// them, for good. It is not notified before. It can still read, with its readers
// and Store.DB, and sees the commits of the new one.
//
// Two processes that open the database again whenever they are refused only keep
// each other from working: let one of them end.
//
// Within the process, terms of several consumers and partitions work in parallel on
// one store. A term acquires streams without writing, so without waiting for the
// disk, unless there was a term of another partition of the same consumer since the
// database was opened.
package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	driver "modernc.org/sqlite"

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/internal/sqlitefile"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// Bounds of reading connections, for the store and for its callers, and the time
// after which an idle one is closed.
const (
	readers  = 4
	callers  = 16
	idleTime = 5 * time.Minute
)

// Open opens the database at path, and creates it if it does not exist, as a file
// that only its owner can read and write. Commits survive a crash of the machine:
// the database has a write-ahead log and synchronous=FULL. It belongs to the store
// alone, see [sqlstore.NewSQLite].
//
// A database with tables, but neither of a store nor of an outbox, is refused with
// [ErrForeign] and not changed; [OpenBeside] accepts it. The error names the path,
// and wraps [ordering.ErrSchema] for a database of a newer program.
func Open(ctx context.Context, path string) (*sqlstore.Store, error) {
	return openNamed(ctx, path, inspect)
}

// OpenReadOnly opens the database at path to look at it, beside the process that works on
// it, which does not notice: see [sqlstore.ReadOnly]. It must exist. Its folder must be
// writable if no process has it open, for the log's index.
func OpenReadOnly(ctx context.Context, path string) (*sqlstore.ReadOnly, error) {
	r, err := openReadOnly(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open database %q: %w", path, err)
	}
	return r, nil
}

// OpenOperator opens the database at path to look at it, as OpenReadOnly does, and to leave
// requests in it: see [sqlstore.Operator].
func OpenOperator(ctx context.Context, path string) (*sqlstore.Operator, error) {
	o, err := openOperator(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open database %q: %w", path, err)
	}
	return o, nil
}

func openOperator(ctx context.Context, path string) (*sqlstore.Operator, error) {
	reads, err := look(ctx, path)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, errors.Join(err, reads.Close())
	}
	writes, err := driver.NewConnector(address(path, requesting))
	if err != nil {
		return nil, errors.Join(err, reads.Close())
	}
	return sqlstore.NewOperator(ctx, reads, pool(writes, 1), sqldb.SQLite)
}

func openReadOnly(ctx context.Context, path string) (*sqlstore.ReadOnly, error) {
	reads, err := look(ctx, path)
	if err != nil {
		return nil, err
	}
	return sqlstore.NewReadOnly(ctx, reads, sqldb.SQLite)
}

// look returns connections to a database of a store that can only read.
func look(ctx context.Context, path string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	if err := inspect(ctx, path); err != nil {
		return nil, err
	}
	connector, err := driver.NewConnector(address(path, readOnly))
	if err != nil {
		return nil, err
	}
	return pool(connector, readers), nil
}

// OpenBeside is Open for a database that may already have tables of the caller. The
// database gets a write-ahead log, and the store's tables in addition.
func OpenBeside(ctx context.Context, path string) (*sqlstore.Store, error) {
	return openNamed(ctx, path, func(context.Context, string) error { return nil })
}

func openNamed(ctx context.Context, path string, inspect func(ctx context.Context, path string) error) (*sqlstore.Store, error) {
	store, err := open(ctx, path, inspect)
	if err != nil {
		return nil, fmt.Errorf("open database %q: %w", path, err)
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

// keepLog switches the database to a write-ahead log. If several programs do so with
// a new one, SQLite returns SQLITE_BUSY to all but one at once, despite their
// timeouts.
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
	db.SetMaxIdleConns(connections) // opening one takes longer than most reads
	db.SetConnMaxIdleTime(idleTime)
	return db
}

// options are the driver's options for every connection.
var options = url.Values{
	"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "temp_store(MEMORY)"},
	"_txlock": {"immediate"},
}.Encode()

// readOnly are those of one that only looks.
var readOnly = url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(10000)", "query_only(1)"}}.Encode()

// requesting are those of one that leaves requests; it makes no file.
var requesting = url.Values{"mode": {"rw"}, "_pragma": {"busy_timeout(10000)", "synchronous(FULL)"}}.Encode()

// address returns the DSN of a database.
func address(path, options string) string {
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: options}
	return dsn.String()
}
