package outbox

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/lockkeys"
)

// querier is a database, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// repeat returns n copies of part, separated by commas, with its question marks
// in the form of the database. SQLite understands the $1 of PostgreSQL as well,
// but takes time square in the number of them.
func repeat(d Dialect, n int, part string) string {
	text := strings.TrimSuffix(strings.Repeat(part+", ", n), ", ")
	if d == SQLite {
		return text
	}
	var b strings.Builder
	for i := 1; ; i++ {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(i))
		text = after
	}
}

// lastOf returns the place of the last number of a stream, 0 if there is none, and whether
// the stream has ended with it.
func lastOf(ctx context.Context, db querier, stream lockkeys.Key) (last uint64, ended bool, err error) {
	err = db.QueryRowContext(ctx, `SELECT last, ended > 0 FROM outbox_streams WHERE stream = $1`, stream.String()).Scan(&last, &ended)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return last, ended, err
}
