package outbox

import (
	"context"
	"database/sql"
)

// statements are those that an event needs on its way, by their texts. They are
// kept prepared on SQLite, where to parse one takes several times as long as to
// run it. Those of other numbers of streams are not. Drivers for PostgreSQL
// have them all prepared anyway.
type statements map[string]*sql.Stmt

// few is for how many streams, or heads of streams, statements are kept.
const few = 2

// prepareAll returns the statements of a database.
func prepareAll(ctx context.Context, db *sql.DB, d Dialect) (statements, error) {
	if d != SQLite {
		return nil, nil
	}
	texts := []string{savepoint, insertEvent, findHeads}
	for n := 1; n <= few; n++ {
		texts = append(texts, nextNumbers(d, n), insertPositions(d, n), loadRuns(d, n))
	}
	s := statements{}
	for _, text := range texts {
		var err error
		if s[text], err = db.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// query queries db, which is the database of the statements or one of its
// connections.
func (s statements) query(ctx context.Context, db querier, text string, args ...any) (*sql.Rows, error) {
	if prepared := s[text]; prepared != nil {
		return prepared.QueryContext(ctx, args...)
	}
	return db.QueryContext(ctx, text, args...)
}

// transaction is a caller's, from the savepoint "outbox" on.
type transaction struct {
	*sql.Tx
	statements statements
}

const savepoint = `SAVEPOINT outbox`

// begin sets the savepoint. The statements are of no use for the transaction of
// another [sql.DB] for the same database: that shows here.
func (o *Outbox) begin(ctx context.Context, tx *sql.Tx) (transaction, error) {
	if prepared := o.statements[savepoint]; prepared != nil {
		if _, err := tx.StmtContext(ctx, prepared).ExecContext(ctx); err == nil {
			return transaction{tx, o.statements}, nil
		}
	}
	_, err := tx.ExecContext(ctx, savepoint)
	return transaction{tx, nil}, err
}

// ExecContext is [sql.Tx.ExecContext] with a prepared statement, if there is one.
func (t transaction) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if prepared := t.statements[text]; prepared != nil {
		return t.StmtContext(ctx, prepared).ExecContext(ctx, args...)
	}
	return t.Tx.ExecContext(ctx, text, args...)
}

// QueryContext is [sql.Tx.QueryContext] likewise.
func (t transaction) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if prepared := t.statements[text]; prepared != nil {
		return t.StmtContext(ctx, prepared).QueryContext(ctx, args...)
	}
	return t.Tx.QueryContext(ctx, text, args...)
}

// QueryRowContext is [sql.Tx.QueryRowContext] likewise.
func (t transaction) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	if prepared := t.statements[text]; prepared != nil {
		return t.StmtContext(ctx, prepared).QueryRowContext(ctx, args...)
	}
	return t.Tx.QueryRowContext(ctx, text, args...)
}
