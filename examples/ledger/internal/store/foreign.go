package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/internal/sqlitefile"
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
		return sqlitefile.Create(path)
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a folder")
	case info.Size() == 0:
		return nil
	}
	db, err := sqlitefile.Look(path)
	if err != nil {
		return err
	}
	defer db.Close()
	names, err := sqlitefile.Tables(ctx, db)
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
