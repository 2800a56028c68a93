package outbox

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Lock locks streams for a transaction: until it ends, others that enqueue an
// event on one of them, or lock it, wait. It locks them in a fixed order, as
// Enqueue does for one event, so transactions that enqueue several events, and
// first lock all their streams in one call, cannot deadlock with each other. For a
// single event Lock is not needed.
//
// After an error the transaction is as it was before, unless the database itself
// failed; see [Outbox.Enqueue]. On SQLite, which has one writer at a time, Lock
// makes the transaction the writer.
func (o *Outbox) Lock(ctx context.Context, tx *sql.Tx, streams ...lockkeys.Key) error {
	if tx == nil {
		return ErrNoTx
	}
	for _, stream := range streams {
		if stream.Size() > ordering.MaxStream {
			return fmt.Errorf("outbox: lock %.80s: %w", stream, ordering.ErrLongStream)
		}
	}
	err := o.atomically(ctx, tx, func(t transaction) error {
		_, err := o.lock(ctx, t, streams)
		return err
	})
	if err != nil {
		return fmt.Errorf("outbox: lock streams: %w", err)
	}
	return nil
}

// lock locks streams and returns their last numbers.
func (o *Outbox) lock(ctx context.Context, tx transaction, streams []lockkeys.Key) (map[string]lastNumber, error) {
	return eachLast(ctx, tx, streams, lockStreams, o.dialect)
}

// lockStreams creates missing rows. A stream without an event has the last number
// 0.
func lockStreams(d Dialect, n int) string {
	return `INSERT INTO outbox_streams AS s (stream, last, ended) VALUES ` + sqldb.Repeat(d, n, "(?, 0, 0)") + `
		ON CONFLICT (stream) DO UPDATE SET last = s.last RETURNING stream, last, ended > 0`
}

// atomically calls do in a savepoint of the caller's transaction.
func (o *Outbox) atomically(ctx context.Context, tx *sql.Tx, do func(t transaction) error) error {
	if _, err := tx.ExecContext(ctx, `SAVEPOINT outbox`); err != nil {
		return conflicting(err)
	}
	err := do(transaction{tx, nil})
	if err == nil {
		_, err = tx.ExecContext(ctx, release)
	}
	if err != nil {
		undo(ctx, tx)
		return conflicting(err)
	}
	return nil
}

const release = `RELEASE SAVEPOINT outbox`

// undo rolls back to the savepoint. If that fails it rolls back the whole
// transaction, whose commit would leave a hole in the numbers.
func undo(ctx context.Context, tx *sql.Tx) {
	ctx = context.WithoutCancel(ctx)
	for _, statement := range []string{`ROLLBACK TO SAVEPOINT outbox`, release} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			_ = tx.Rollback()
			return
		}
	}
}

// conflicting adds ErrConflict to a database's error for a conflict with another
// transaction.
func conflicting(err error) error {
	if sqldb.IsConflict(err) {
		return fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return err
}
