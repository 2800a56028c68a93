package postgres

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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
	var key [8]byte
	_, _ = rand.Read(key[:]) // it never fails
	guard := &conn{Conn: c.(*stdlib.Conn), lock: int64(binary.LittleEndian.Uint64(key[:]))}
	if _, err := guard.pgx().Exec(ctx, `SELECT pg_advisory_lock($1)`, guard.lock); err != nil {
		return nil, errors.Join(err, guard.Close())
	}
	return guard, nil
}

// conn is a connection for effects, a [sqlstore.Session]. During a transaction it is used
// by the goroutine of the effect alone, directly or by way of package database/sql.
//
// A transaction begins with its first statement: until that is sent, BEGIN waits in
// queued, and so do statements whose results nobody needs. They are sent in front of
// the next statement, or of the COMMIT.
type conn struct {
	*stdlib.Conn
	lock int64 // of the session

	inTx    bool
	begun   bool // BEGIN was sent
	ended   bool // the transaction was, by the effect
	tx      pgx.Tx
	queued  []*pgx.QueuedQuery // to be sent before anything else, after BEGIN
	refused error              // of a statement that was queued, or was to be

	mayCommit bool
	within    context.Context      // of the COMMIT
	with      []sqlstore.Statement // to be sent with it
	inDoubt   bool
}

func (c *conn) pgx() *pgx.Conn { return c.Conn.Conn() }

// Lock implements [sqlstore.Session].
func (c *conn) Lock() int64 { return c.lock }

// InDoubt implements [sqlstore.Session].
func (c *conn) InDoubt() bool { return c.inDoubt }

// CommitWith implements [sqlstore.Session].
func (c *conn) CommitWith(ctx context.Context, statements []sqlstore.Statement) {
	c.mayCommit, c.within, c.with = true, ctx, statements
}

// BeginTx begins a transaction; nothing is sent yet.
func (c *conn) BeginTx(_ context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if opts != (driver.TxOptions{}) {
		return nil, errors.New("postgres: the transaction of an effect has no options")
	}
	if c.pgx().IsClosed() {
		return nil, driver.ErrBadConn
	}
	*c = conn{Conn: c.Conn, lock: c.lock, inTx: true}
	return &driverTx{c}, nil
}

// errLost is the error of a rollback that the server makes.
var errLost = errors.New("postgres: the connection was lost")

// Errors of an effect that has swallowed the error of a statement, and of one that has
// not read an answer to its end.
var (
	errFailed = fmt.Errorf("%w: a statement of it failed, and it did not say so: PostgreSQL commits nothing after that", sqlstore.ErrEnded)
	errRows   = errors.New("postgres: the effect has left rows or results of a batch open: close them")
)

// look records whether the transaction has ended, which the server reports with
// each answer.
func (c *conn) look() {
	const idle = 'I'
	server := c.pgx().PgConn()
	c.ended = c.ended || c.begun && !server.IsBusy() && server.TxStatus() == idle
}

// enter returns an error for a statement that must not run.
func (c *conn) enter(query string) error {
	if !c.inTx {
		return nil
	}
	if c.look(); c.ended {
		return sqlstore.ErrEnded
	}
	switch word, does := whatItDoes(query); does {
	case endsTransaction:
		return fmt.Errorf("%w: %s: the store commits; to undo what it wrote an effect returns an error, or has a savepoint", sqlstore.ErrForbidden, word)
	case outlastsTransaction:
		return fmt.Errorf("%w: %s: it would change the connection for the effects that follow; use SET LOCAL", sqlstore.ErrForbidden, word)
	}
	return nil
}

// single returns an error for a text of several statements, one of which may end the
// transaction. Without arguments, pgx sends a text in a way in which the server takes
// several; it does not prepare them.
func (c *conn) single(ctx context.Context, query string, args int) error {
	if args > 0 || !c.inTx || !strings.Contains(strings.TrimRight(query, "; \t\r\n"), ";") {
		return nil
	}
	_, err := c.pgx().PgConn().Prepare(ctx, "", query, nil)
	const syntax = "42601"
	var server interface{ SQLState() string }
	if errors.As(err, &server) && server.SQLState() == syntax {
		return fmt.Errorf("%w: a text of several statements, or a wrong one: %w", sqlstore.ErrForbidden, err)
	}
	return err
}

// send sends BEGIN if that is due, what is queued, and more, in one round trip. It
// returns the results of more, which the caller must close; the error is that of a
// statement before them.
func (c *conn) send(ctx context.Context, more ...*pgx.QueuedQuery) (pgx.BatchResults, error) {
	if c.refused != nil {
		return nil, c.refused
	}
	batch := &pgx.Batch{}
	if !c.begun {
		batch.BeginTx(pgx.TxOptions{})
	}
	batch.QueuedQueries = append(batch.QueuedQueries, c.queued...)
	before := batch.Len()
	batch.QueuedQueries = append(batch.QueuedQueries, more...)
	c.queued = nil
	results := c.pgx().SendBatch(ctx, batch)
	if !c.begun {
		c.begun, c.tx = true, results.Tx()
	}
	for i := range before {
		if _, err := results.Exec(); err != nil {
			_ = results.Close()
			if !errors.As(err, new(pgx.ErrPreprocessingBatch)) { // of one of more, perhaps
				err = fmt.Errorf("postgres: %.60q, which was queued: %w", batch.QueuedQueries[i].SQL, err)
			}
			c.refused = err
			return nil, err
		}
	}
	return results, nil
}

// isDue reports whether something is to be sent before the next statement.
func (c *conn) isDue() bool { return c.inTx && (!c.begun || len(c.queued) > 0 || c.refused != nil) }

// flush sends what is due.
func (c *conn) flush(ctx context.Context) error {
	if !c.isDue() {
		return nil
	}
	results, err := c.send(ctx)
	if err != nil {
		return err
	}
	return results.Close()
}

// ExecContext runs a statement.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.enter(query); err != nil {
		return nil, err
	}
	defer c.look()
	if err := c.single(ctx, query, len(args)); err != nil {
		return nil, err
	}
	if !c.isDue() {
		return c.Conn.ExecContext(ctx, query, args)
	}
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = arg.Value
	}
	results, err := c.send(ctx, &pgx.QueuedQuery{SQL: query, Arguments: values})
	if err != nil {
		return nil, err
	}
	tag, err := results.Exec()
	return driver.RowsAffected(tag.RowsAffected()), errors.Join(err, results.Close())
}

// QueryContext runs a query.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.enter(query); err != nil {
		return nil, err
	}
	if err := c.flush(ctx); err != nil {
		return nil, err
	}
	return c.Conn.QueryContext(ctx, query, args)
}

// PrepareContext prepares a statement.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &statement{s.(*stdlib.Stmt), c, query}, nil
}

// statement is a prepared statement.
type statement struct {
	*stdlib.Stmt
	conn  *conn
	query string
}

// ExecContext runs the statement.
func (s *statement) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.ExecContext(ctx, s.query, args)
}

// QueryContext runs the query.
func (s *statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.QueryContext(ctx, s.query, args)
}

// driverTx is a transaction of a conn.
type driverTx struct{ conn *conn }

// Commit commits if the store has called CommitWith.
func (t *driverTx) Commit() error {
	c := t.conn
	c.look()
	const failed = 'E'
	var err error
	switch server := c.pgx().PgConn(); {
	case c.ended || !c.mayCommit:
		err = sqlstore.ErrEnded
	case server.TxStatus() == failed:
		err = errFailed
	case server.IsBusy():
		err = &sqlstore.StatementError{Err: errRows}
	default:
		if err = c.commit(c.within); err == nil {
			c.inTx = false
			return nil
		}
	}
	return errors.Join(err, t.Rollback())
}

// commit sends what is queued, the store's statements and COMMIT.
func (c *conn) commit(ctx context.Context) error {
	if c.refused != nil {
		return &sqlstore.StatementError{Err: c.refused}
	}
	batch := &pgx.Batch{}
	if !c.begun {
		batch.BeginTx(pgx.TxOptions{})
	}
	begin := batch.Len()
	batch.QueuedQueries = append(batch.QueuedQueries, c.queued...)
	effect := batch.Len()
	for _, s := range c.with {
		batch.Queue(s.Query, s.Args...)
	}
	own := batch.Len()
	batch.Queue(`COMMIT`)
	c.queued, c.begun = nil, true
	results := c.pgx().SendBatch(ctx, batch)
	var tag pgconn.CommandTag
	var err error
	failed := 0
	for ; failed < batch.Len() && err == nil; failed++ {
		tag, err = results.Exec()
	}
	failed--
	if end := results.Close(); err == nil {
		err = end
	}
	var unsent pgx.ErrPreprocessingBatch
	switch {
	case err == nil && tag.String() != "COMMIT": // PostgreSQL answers so, without an error, when it rolls back
		return errFailed
	case err == nil:
		return nil
	case errors.As(err, &unsent):
		failed = slices.IndexFunc(batch.QueuedQueries, func(q *pgx.QueuedQuery) bool { return q.SQL == unsent.SQL() })
	case c.pgx().IsClosed():
		c.inDoubt = true
		return err
	case failed >= own:
		return err
	}
	if c.pgx().IsClosed() && !isUnfit(err) {
		return err
	}
	c.refused = err
	return &sqlstore.StatementError{Own: failed < begin || failed >= effect, Err: err}
}

// isUnfit reports whether an error is that of a statement whose arguments are not of
// the right types. Then pgx sends nothing, and closes the connection if the statement
// was one of several.
func isUnfit(err error) bool {
	var unsent pgx.ErrPreprocessingBatch
	return errors.As(err, &unsent) && strings.HasPrefix(unsent.Error(), "error preprocessing batch (build)")
}

const rollbackTime = 5 * time.Second

// Rollback undoes the transaction. The error says that the connection was lost, which
// the effect may not have noticed.
func (t *driverTx) Rollback() error {
	c := t.conn
	c.inTx, c.queued = false, nil
	const idle = 'I'
	switch server := c.pgx().PgConn(); {
	case c.pgx().IsClosed() && isUnfit(c.refused):
		return nil
	case c.pgx().IsClosed():
		return errLost
	case server.IsBusy(): // as the effect has left it
		return c.Close()
	case server.TxStatus() == idle:
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTime)
	defer cancel()
	if _, err := c.pgx().Exec(ctx, `ROLLBACK`); err != nil {
		return errors.Join(err, c.Close()) // which the server takes for a rollback
	}
	return nil
}
