package outbox

import (
	"context"
	"database/sql"
)

// statements has prepared statements by their texts. Only on SQLite, where parsing a
// statement takes several times as long as running it, and only for few streams.
// Drivers for PostgreSQL prepare all statements anyway.
type statements map[string]*sql.Stmt

// few is the largest number of streams, or heads of streams, with prepared
// statements.
const few = 2

// prepareAll prepares the statements of a database: those for enqueuing events, which
// run in transactions of the caller's, and those of relays.
func (o *Outbox) prepareAll(ctx context.Context) (err error) {
	if o.dialect != SQLite {
		return nil
	}
	enqueuing, relaying := []string{}, []string{findHeads}
	for n := 1; n <= few; n++ {
		enqueuing = append(enqueuing, lastNumbers(o.dialect, n), insertEvents(o.dialect, n), putLast(o.dialect, n), insertPositions(o.dialect, n))
		relaying = append(relaying, loadRuns(o.dialect, n))
	}
	if o.config.Also != nil {
		enqueuing = append(enqueuing, o.config.Also.Statements()...)
	}
	if o.enqueuing, err = newStatements(ctx, o.db, enqueuing); err == nil {
		o.relaying, err = newStatements(ctx, o.db, relaying)
	}
	return err
}

func newStatements(ctx context.Context, db *sql.DB, texts []string) (statements, error) {
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

// transaction is a caller's transaction.
type transaction struct {
	*sql.Tx
	statements statements
}

// prepared returns a transaction that uses the prepared statements, unless it is of
// another [sql.DB] for the same database, where they do not work: one of a store of
// package sqlstore keeps its statements compiled.
func (o *Outbox) prepared(ctx context.Context, tx *sql.Tx) transaction {
	if o.dialect != SQLite || tx.StmtContext(ctx, o.enqueuing[lastNumbers(o.dialect, 1)]).Close() != nil {
		return transaction{tx, nil}
	}
	return transaction{tx, o.enqueuing}
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
