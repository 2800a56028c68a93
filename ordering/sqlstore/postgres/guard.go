package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// guarded makes connections for effects, which must not end their transactions:
// later writes of the effect would be durable on their own, and the event's
// numbers perhaps not at all.
type guarded struct{ driver.Connector }

func (g guarded) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := g.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c.(*stdlib.Conn)}, nil
}

// conn is a connection that guards its transaction. Package database/sql uses
// it on one goroutine at a time, except for mayCommit.
type conn struct {
	*stdlib.Conn
	inTx      bool
	ended     bool // the transaction, by a statement of the effect
	mayCommit atomic.Bool
}

// MayCommit implements [sqlstore.Committer].
func (c *conn) MayCommit() { c.mayCommit.Store(true) }

// BeginTx begins a transaction.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	t, err := c.Conn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	c.inTx, c.ended = true, false
	c.mayCommit.Store(false)
	return &tx{t, c}, nil
}

// errFailed is the error of an effect that did not return the error of a
// statement.
var errFailed = fmt.Errorf("%w: a statement of it failed, and it did not say so: PostgreSQL commits nothing after that", sqlstore.ErrEnded)

// look records whether the transaction has ended, which the server reports with
// each answer.
func (c *conn) look() {
	const idle = 'I'
	c.ended = c.ended || c.inTx && c.Conn.Conn().PgConn().TxStatus() == idle
}

// enter returns an error for a statement that must not run.
func (c *conn) enter(query string) error {
	if !c.inTx {
		return nil
	}
	if c.look(); c.ended {
		return sqlstore.ErrEnded
	}
	if word, ends := endsTransaction(query); ends {
		return fmt.Errorf("%w: %s: the store commits; to undo what it wrote an effect returns an error, or has a savepoint", sqlstore.ErrForbidden, word)
	}
	return nil
}

// ExecContext runs a statement.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.enter(query); err != nil {
		return nil, err
	}
	defer c.look()
	return c.Conn.ExecContext(ctx, query, args)
}

// QueryContext runs a query.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.enter(query); err != nil {
		return nil, err
	}
	return c.Conn.QueryContext(ctx, query, args)
}

// tx is a transaction of a conn.
type tx struct {
	driver.Tx
	conn *conn
}

// Commit commits if the store has called MayCommit.
func (t *tx) Commit() error {
	c := t.conn
	c.look()
	c.inTx = false
	const failed = 'E'
	switch {
	case c.ended || !c.mayCommit.Load():
		return errors.Join(sqlstore.ErrEnded, t.Tx.Rollback())
	case c.Conn.Conn().PgConn().TxStatus() == failed:
		return errors.Join(errFailed, t.Tx.Rollback())
	}
	return t.Tx.Commit()
}

// Rollback undoes the transaction.
func (t *tx) Rollback() error {
	t.conn.inTx = false
	return t.Tx.Rollback()
}

// endsTransaction reports whether a text begins with a statement that begins or
// ends a transaction, and returns its first word. In a text of several
// statements it may come later; then it is detected by the server's answer.
func endsTransaction(query string) (word string, ends bool) {
	words := strings.FieldsFunc(withoutComments(query), func(r rune) bool { return r == ';' || r <= ' ' })
	if len(words) == 0 {
		return "", false
	}
	word = strings.ToUpper(words[0])
	switch word {
	case "BEGIN", "START", "COMMIT", "END", "ABORT":
		return word, true
	case "ROLLBACK":
		to := slices.IndexFunc(words[:min(3, len(words))], func(w string) bool { return strings.EqualFold(w, "TO") })
		return word, to < 0
	case "PREPARE":
		return word, len(words) > 1 && strings.EqualFold(words[1], "TRANSACTION")
	}
	return word, false
}

// withoutComments removes leading comments and spaces from a text.
func withoutComments(query string) string {
	for {
		query = strings.TrimLeft(query, " \t\r\n\f\v;")
		var found bool
		switch {
		case strings.HasPrefix(query, "--"):
			_, query, found = strings.Cut(query, "\n")
		case strings.HasPrefix(query, "/*"):
			_, query, found = strings.Cut(query, "*/")
		}
		if !found {
			return query
		}
	}
}
