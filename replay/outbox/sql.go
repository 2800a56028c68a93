package outbox

import (
	"context"
	"database/sql"
	"errors"

	"github.com/interlock-go/interlock/lockkeys"
)

// querier is a database, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// rowOf is the row of a stream in outbox_streams, by its name.
const rowOf = `(SELECT id FROM outbox_streams WHERE stream = $1)`

// typeOf is the type of an event e of outbox_events; empty if its body has it.
const typeOf = `coalesce((SELECT name FROM outbox_types WHERE id = e.type), '')`

// lastOf returns the place of the last number of a stream, 0 if there is none, and whether
// the stream has ended with it.
func lastOf(ctx context.Context, db querier, stream lockkeys.Key) (last uint64, ended bool, err error) {
	err = db.QueryRowContext(ctx, `SELECT last, ended > 0 FROM outbox_streams WHERE stream = $1`, stream.String()).Scan(&last, &ended)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return last, ended, err
}
