// Package sqlitefile inspects the file of an SQLite database before it is opened
// for use. It changes no byte of it, and creates no file beside it.
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

// Look opens a database for inspection, which must not be empty. A file without the
// header of a database is refused: SQLite itself would treat a very short one as
// empty, and overwrite it.
func Look(path string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := header(path); err != nil {
		return nil, err
	}
	// SQLite creates files beside a database with a write-ahead log even to read
	// it, unless it is opened as immutable. Then it ignores the log; so it is
	// opened so only if there is none.
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
		return errors.New("it is not an SQLite database; nothing was changed")
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

// Create creates the file of a new database, which only its owner can read and
// write. SQLite gives the files beside it the same mode.
func Create(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}
