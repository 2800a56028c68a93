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

// rows returns placeholders for n rows of width arguments: ($1, $2), ($3, $4).
// SQLite reads them as PostgreSQL does.
func rows(n, width int) string {
	var b strings.Builder
	for i := range n * width {
		switch {
		case i == 0:
			b.WriteByte('(')
		case i%width == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(i + 1))
	}
	b.WriteByte(')')
	return b.String()
}

// column returns the values of a query with one column.
func column[T any](ctx context.Context, db querier, query string, args ...any) ([]T, error) {
	found, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var values []T
	for found.Next() {
		var value T
		if err := found.Scan(&value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, found.Err()
}

// lastOf returns the last number of a stream, 0 if there is none, and whether
// the stream has ended with it.
func lastOf(ctx context.Context, db querier, stream lockkeys.Key) (last uint64, ended bool, err error) {
	err = db.QueryRowContext(ctx, `SELECT last, ended > 0 FROM outbox_streams WHERE stream = $1`, stream.String()).Scan(&last, &ended)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return last, ended, err
}
