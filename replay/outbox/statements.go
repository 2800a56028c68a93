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
	enqueuing, relaying := []string{savepoint, release, insertEvents(o.dialect, 1)}, []string{findHeads}
	for n := 1; n <= few; n++ {
		enqueuing = append(enqueuing, nextNumbers(o.dialect, n, o.config.Epoch), insertPositions(o.dialect, n), lockStreams(o.dialect, n))
		relaying = append(relaying, loadRuns(o.dialect, n))
	}
	if o.config.Also != nil {
		enqueuing = append(enqueuing, o.config.Also.Statements()...)
	}
	prepare := o.config.Prepare
	if prepare == nil {
		prepare = o.db.PrepareContext
	}
	if o.enqueuing, err = newStatements(ctx, prepare, enqueuing); err == nil {
		o.relaying, err = newStatements(ctx, o.db.PrepareContext, relaying)
	}
	return err
}

func newStatements(ctx context.Context, prepare func(context.Context, string) (*sql.Stmt, error), texts []string) (statements, error) {
	s := statements{}
	for _, text := range texts {
		var err error
		if s[text], err = prepare(ctx, text); err != nil {
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
	if prepared := o.enqueuing[savepoint]; prepared != nil {
		if _, err := tx.StmtContext(ctx, prepared).ExecContext(ctx); err == nil {
			return transaction{tx, o.enqueuing}, nil
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
