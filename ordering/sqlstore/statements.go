package sqlstore

import (
	"context"
	"database/sql"
)

// transaction is one of the store's own.
type transaction struct {
	*sql.Tx
	statements *statements // of SQLite; the driver for PostgreSQL has its own
}

// ExecContext is [sql.Tx.ExecContext] with a prepared statement.
func (t *transaction) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if s := t.statements.of(ctx, t.Tx, text); s != nil {
		return s.ExecContext(ctx, args...)
	}
	return t.Tx.ExecContext(ctx, text, args...)
}

// QueryContext is [sql.Tx.QueryContext] with a prepared statement.
func (t *transaction) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if s := t.statements.of(ctx, t.Tx, text); s != nil {
		return s.QueryContext(ctx, args...)
	}
	return t.Tx.QueryContext(ctx, text, args...)
}

// statements keeps those that the store uses, which are a few, prepared: on
// SQLite parsing one takes as long as running it. One that is used for the
// first time is prepared before the next transaction.
type statements struct {
	prepared map[string]*sql.Stmt // for the database
	bound    map[string]*sql.Stmt // for the transaction
	missing  []string
}

func newStatements() *statements {
	return &statements{prepared: map[string]*sql.Stmt{}, bound: map[string]*sql.Stmt{}}
}

// of returns a statement for a transaction, or nil if it is not prepared.
func (s *statements) of(ctx context.Context, tx *sql.Tx, text string) *sql.Stmt {
	if s == nil {
		return nil
	}
	if bound := s.bound[text]; bound != nil {
		return bound
	}
	prepared := s.prepared[text]
	if prepared == nil {
		s.missing = append(s.missing, text)
		return nil
	}
	s.bound[text] = tx.StmtContext(ctx, prepared)
	return s.bound[text]
}

// renew makes ready for the next transaction.
func (s *statements) renew(ctx context.Context, db *sql.DB) (err error) {
	clear(s.bound)
	for _, text := range s.missing {
		if s.prepared[text] != nil {
			continue
		}
		if s.prepared[text], err = db.PrepareContext(ctx, text); err != nil {
			delete(s.prepared, text)
			return err
		}
	}
	s.missing = s.missing[:0]
	return nil
}
