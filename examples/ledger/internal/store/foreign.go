package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// ErrForeign is wrapped by the error for a database that is of something else.
var ErrForeign = errors.New("the database is of another program")

// Inspect returns an error for the file of an SQLite database that has tables, but
// not the one that tells that it is the caller's, unless all begin with one of the
// prefixes, as those that are made first do. It changes nothing: whoever opens a
// database to use it takes it over. A new file is its owner's alone.
func Inspect(ctx context.Context, path, mark string, prefixes ...string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		return file.Close()
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a folder")
	case info.Size() == 0:
		return nil
	}
	if err := checkHeader(path); err != nil {
		return err
	}
	names, err := tables(ctx, path)
	if err != nil || slices.Contains(names, mark) {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	})
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%w, which has the table %.40q: give another database; nothing was changed", ErrForeign, names[0])
}

func checkHeader(path string) error {
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

// tables lists the tables of a database. SQLite makes files beside one with a
// write-ahead log even to read it, unless it is told that nobody writes; then it
// leaves out what is in the log, if there is one.
func tables(ctx context.Context, path string) (names []string, err error) {
	options := "mode=ro&immutable=1"
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
		options = "mode=ro&_pragma=busy_timeout(10000)"
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	source := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: options}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return nil, err
	}
	defer db.Close()
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
