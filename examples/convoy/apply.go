package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/convoy/internal/ledger"
)

// apply applies a transaction to its orders. Each operation relies on earlier
// ones: out of order, or twice, it would fail or leave something else.
func apply(ctx context.Context, tx *sql.Tx, t ledger.Transaction) error {
	switch t.Op {
	case ledger.Create:
		return change(ctx, tx, t, `INSERT INTO convoy_orders (stream) VALUES ($1) ON CONFLICT DO NOTHING`, t.Order)
	case ledger.Add:
		return change(ctx, tx, t, `INSERT INTO convoy_lines (transaction, stream, amount)
			SELECT $1, stream, $3 FROM convoy_orders WHERE stream = $2 AND NOT closed`, t.ID, t.Order, t.Amount)
	case ledger.Modify:
		return change(ctx, tx, t, `UPDATE convoy_lines SET amount = $3 WHERE transaction = $1 AND stream = $2`, t.Of, t.Order, t.Amount)
	case ledger.Move:
		return change(ctx, tx, t, `UPDATE convoy_lines SET stream = $3 WHERE transaction = $1 AND stream = $2
			AND EXISTS (SELECT FROM convoy_orders WHERE stream = $3 AND NOT closed)`, t.Of, t.Order, t.To)
	case ledger.Closing:
		return change(ctx, tx, t, `UPDATE convoy_orders SET closed = true WHERE stream = $1 AND NOT closed`, t.Order)
	}
	return dispatcher.Permanent(fmt.Errorf("transaction %.80q: %.80q is no operation", t.ID, t.Op))
}

// change makes a change of exactly one row.
func change(ctx context.Context, tx *sql.Tx, t ledger.Transaction, statement string, args ...any) error {
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n != 1 {
		err = dispatcher.Permanent(fmt.Errorf("transaction %.80q: order %s is not in a state for %q", t.ID, t.Order, t.Op))
	}
	return err
}
