package outbox

import (
	"context"
	"database/sql"
)

// statements has the prepared statements for enqueuing and sending an event, by
// their texts. Only on SQLite, where parsing a statement takes several times as
// long as running it, and only for few streams. Drivers for PostgreSQL prepare all
// statements anyway.
type statements map[string]*sql.Stmt

// few is the largest number of streams, or heads of streams, with prepared
// statements.
const few = 2

// prepareAll returns the statements of a database.
func prepareAll(ctx context.Context, db *sql.DB, d Dialect, epoch uint16) (statements, error) {
	if d != SQLite {
		return nil, nil
	}
	texts := []string{savepoint, insertEvents(d, 1), findHeads}
	for n := 1; n <= few; n++ {
		texts = append(texts, nextNumbers(d, n, epoch), insertPositions(d, n), loadRuns(d, n))
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

// transaction is a caller's transaction within the savepoint "outbox".
type transaction struct {
	*sql.Tx
	statements statements
}

const savepoint = `SAVEPOINT outbox`

// begin sets the savepoint. The prepared statements do not work in a transaction
// of another [sql.DB] for the same database: that shows here.
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

// QueryContext is [sql.Tx.QueryContext], likewise.
func (t transaction) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if prepared := t.statements[text]; prepared != nil {
		return t.StmtContext(ctx, prepared).QueryContext(ctx, args...)
	}
	return t.Tx.QueryContext(ctx, text, args...)
}

// QueryRowContext is [sql.Tx.QueryRowContext], likewise.
func (t transaction) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	if prepared := t.statements[text]; prepared != nil {
		return t.StmtContext(ctx, prepared).QueryRowContext(ctx, args...)
	}
	return t.Tx.QueryRowContext(ctx, text, args...)
}
