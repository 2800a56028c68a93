// Package sqlitefile looks at the file of an SQLite database before anybody opens
// it to use it. No byte of it changes, and no file comes to be beside it.
package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Look opens a database to be looked at, which must not be empty. A file that does
// not begin as databases do is refused: SQLite itself takes one for empty, and
// writes over it, if it is very short.
func Look(path string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := header(path); err != nil {
		return nil, err
	}
	// SQLite makes files beside a database with a write-ahead log even to read
	// it, unless it is told that nobody writes. Then it leaves out what is in
	// the log; so it is told that only if there is none.
	options := "mode=ro&immutable=1"
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
		options = "mode=ro&_pragma=busy_timeout(10000)"
	}
	source := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: options}
	return sql.Open("sqlite", source.String())
}

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

// Tables returns the names of all tables.
func Tables(ctx context.Context, db *sql.DB) (names []string, err error) {
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
		names = append(names, name)
	}
	return names, rows.Err()
}

// Create makes the file of a new database, which only its owner can read and
// write. SQLite gives the files beside it the same mode.
func Create(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}
