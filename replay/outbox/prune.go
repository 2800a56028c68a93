package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/internal/sqldb"
)

// pruneBatch bounds the events deleted by one transaction, so that producers never
// wait long for it.
const pruneBatch = 500

// Prune deletes the events that were sent longer ago than [Config.Retention] and
// returns their number, except those that were enqueued to be kept for ever, also by
// another Outbox on the same tables. Their streams keep their last numbers. It works
// in small transactions, so an interruption loses only the last one. An active
// [Relay] calls it every minute.
func (o *Outbox) Prune(ctx context.Context) (int64, error) {
	if o.config.Retention < 0 {
		return 0, nil
	}
	before := time.Now().Add(-o.config.Retention).UnixMicro()
	for total := int64(0); ; {
		n, err := o.pruneSome(ctx, before)
		total += n
		if err != nil {
			return total, fmt.Errorf("outbox: prune: %w", err)
		}
		if n < pruneBatch {
			return total, nil
		}
	}
}

func (o *Outbox) pruneSome(ctx context.Context, before int64) (int64, error) {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // says that it is done already after Commit
	ids, err := column(ctx, tx, `DELETE FROM outbox_events WHERE id IN
		(SELECT id FROM outbox_events WHERE NOT kept AND sent IS NOT NULL AND sent < $1 ORDER BY sent LIMIT $2) RETURNING id`, before, pruneBatch)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	for _, table := range []string{"outbox_positions", "outbox_parked"} {
		if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE event IN (`+sqldb.Repeat(o.dialect, len(ids), "?")+`)`, ids...); err != nil {
			return 0, err
		}
	}
	return int64(len(ids)), tx.Commit()
}

// column returns the values of a query with one column.
func column(ctx context.Context, tx *sql.Tx, query string, args ...any) (values []any, err error) {
	found, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var value any
		if err := found.Scan(&value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, found.Err()
}
