package sqlstore

import (
	"context"
	"database/sql"
)

// statements are those that the writer of an SQLite database needs all the
// time, prepared for the database or for one transaction.
type statements struct {
	session, savepoint, release, undo, first, next, job *sql.Stmt
}

func (s *statements) prepare(ctx context.Context, db *sql.DB) (err error) {
	for _, p := range []struct {
		statement **sql.Stmt
		text      string
	}{
		{&s.session, `SELECT token FROM ordering_session`},
		{&s.savepoint, `SAVEPOINT one`},
		{&s.release, `RELEASE one`},
		{&s.undo, `ROLLBACK TO one`},
		{&s.first, `INSERT INTO ordering_streams (stream, last) VALUES ($1, 1)
			ON CONFLICT (stream) DO UPDATE SET last = 1 WHERE last = 0 AND spans = 0`},
		{&s.next, `UPDATE ordering_streams SET last = $2 WHERE stream = $1 AND last = $2 - 1 AND spans = 0`},
		{&s.job, putJob},
	} {
		if *p.statement, err = db.PrepareContext(ctx, p.text); err != nil {
			return err
		}
	}
	return nil
}

// in returns the statements for a transaction.
func (s *statements) in(ctx context.Context, tx *sql.Tx) statements {
	bind := func(statement *sql.Stmt) *sql.Stmt { return tx.StmtContext(ctx, statement) }
	return statements{bind(s.session), bind(s.savepoint), bind(s.release), bind(s.undo), bind(s.first), bind(s.next), bind(s.job)}
}
