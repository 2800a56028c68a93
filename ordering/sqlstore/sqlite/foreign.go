package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/interlock-go/interlock/internal/sqlitefile"
)

// ErrForeign is wrapped by the error of [Open] for a database that has tables,
// but was not made by a store.
var ErrForeign = errors.New("the database is of another program")

// inspect returns an error for a file that is not a store's database. It changes no
// byte of it, and creates no file beside it.
func inspect(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is no file: give the path of one")
	case info.Size() == 0:
		return nil
	}
	db, err := sqlitefile.Look(path)
	if err != nil {
		return err
	}
	defer db.Close()
	names, err := sqlitefile.Tables(ctx, db)
	if err != nil || len(names) == 0 {
		return err
	}
	var ours bool
	err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM schema_versions WHERE component IN ('ordering', 'outbox'))`).Scan(&ours)
	if err == nil && ours {
		return nil
	}
	const few = 5
	more := len(names) > few
	names = names[:min(few, len(names))]
	for i, name := range names {
		names[i] = fmt.Sprintf("%.40q", name)
	}
	if more {
		names = append(names, "…")
	}
	return fmt.Errorf("%w, which has the tables %s: give another database; nothing was changed", ErrForeign, strings.Join(names, ", "))
}
