package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// ErrForeign is wrapped by the error of [Open] for a database that has tables,
// but was not made by a store.
var ErrForeign = errors.New("the database is of another program")

// inspect returns an error for a file that is not a store's database, and
// leaves it as it is: no byte of it changes, and no file comes to be beside it.
func inspect(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is no file")
	case info.Size() == 0:
		return nil
	}
	if err := header(path); err != nil {
		return err
	}
	// SQLite makes files beside a database with a write-ahead log even to read
	// it, unless it is told that nobody writes. Then it leaves out what is in
	// the log; so it is told that only if there is none.
	options := "mode=ro&immutable=1"
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
		options = "mode=ro&_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driverName, address(path, options))
	if err != nil {
		return err
	}
	defer db.Close()
	names, err := tables(ctx, db)
	if err != nil || len(names) == 0 {
		return err
	}
	var ours bool
	err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM schema_versions WHERE component IN ('ordering', 'outbox'))`).Scan(&ours)
	if err == nil && ours {
		return nil
	}
	const few = 5
	if len(names) > few {
		names = append(names[:few], "…")
	}
	return fmt.Errorf("%w, which has the tables %s: give another database; nothing was changed", ErrForeign, strings.Join(names, ", "))
}

// header returns an error for a file that does not begin as databases do. SQLite
// itself takes one for empty, and writes over it, if it is very short.
func header(path string) error {
	const begin = "SQLite format 3\x00"
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	text := make([]byte, len(begin))
	if _, err := io.ReadFull(file, text); err != nil || string(text) != begin {
		return errors.New("it is not a database of SQLite; nothing was changed")
	}
	return nil
}

// tables returns the names of all tables.
func tables(ctx context.Context, db *sql.DB) (names []string, err error) {
	rows, err := db.QueryContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, fmt.Sprintf("%.40q", name))
	}
	return names, rows.Err()
}

// create makes the file of a new database, which only its owner can read and
// write. SQLite gives the files beside it the same mode.
func create(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}
