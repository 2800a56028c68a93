package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
)

// driverConn lists the interfaces that a driver's connection must implement.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// conn wraps a driver's connection for a shared, and is its [Guard]. Package
// database/sql calls it on one goroutine at a time; the driver calls the guard
// during such calls.
type conn struct {
	driverConn
	shared     *shared
	open       bool // the shared transaction has begun here, and has not been ended by end
	inPart     bool
	own        bool                   // a statement of this file is under way, or a query of the store's own
	lost       atomic.Bool            // while open: SQLite has rolled it back
	forbidden  string                 // the statement for which the call under way was refused
	statements map[string]driver.Stmt // of parts
	controls   map[string]driver.Stmt // of control, which nobody else may use
}

// maxStatements bounds the statements of a connection that are kept compiled.
const maxStatements = 128

// part is one request's part of the shared transaction. It is a savepoint if it
// is divided from the others; else it can only be undone with all of them.
type part struct {
	conn    *conn
	divided bool
	wrote   bool         // it may have written something
	state   atomic.Int32 // a partState
}

// partState says how a part has ended.
//
//	from      to        when
//	openPart  keptPart  the writer commits it: its writes stay in the transaction
//	openPart  lostPart  it is undone, has written, and is not divided: so all of the transaction is undone
//	openPart  oddPart   it uses savepoints and is not one itself: it must be run again, as one
//
// A part that is undone alone stays openPart.
type partState int32

const (
	openPart partState = iota
	keptPart
	lostPart
	oddPart
)

func (p *part) becomes(s partState) { p.state.Store(int32(s)) }
func (p *part) is(s partState) bool { return p.state.Load() == int32(s) }

// BeginTx begins a part.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if c.shared.free.Load() {
		return c.driverConn.BeginTx(ctx, opts)
	}
	if c.shared.first.Load() {
		if err := c.begin(); err != nil {
			return nil, err
		}
	} else if !c.open || c.lost.Load() {
		return nil, errLost
	}
	p := &part{conn: c, divided: c.shared.divides()}
	if p.divided {
		if err := c.control("SAVEPOINT " + savepoint); err != nil {
			return nil, err
		}
	}
	c.inPart = true
	c.shared.part.Store(p)
	return p, nil
}

func (c *conn) begin() error {
	if c.open {
		_ = c.end("ROLLBACK")
	}
	if len(c.statements) >= maxStatements {
		forget(c.statements)
	}
	if err := c.control("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	c.open = true
	c.lost.Store(false)
	return nil
}

// Commit ends the part. It keeps the part only if the writer calls it: an
// effect that calls it is undone.
func (p *part) Commit() error {
	c := p.conn
	if !c.shared.keeping.Load() {
		return errors.Join(ErrEnded, p.Rollback())
	}
	c.inPart = false
	if c.lost.Load() {
		return errLost
	}
	var err error
	if p.divided {
		err = c.control("RELEASE " + savepoint)
	}
	if err == nil {
		p.becomes(keptPart)
	}
	return err
}

// Rollback undoes the part, with all savepoints open in it, or the whole
// transaction if the part is not divided from the rest.
func (p *part) Rollback() error {
	c := p.conn
	c.inPart = false
	switch {
	case c.lost.Load():
		return nil
	case !p.divided && p.wrote:
		c.shared.divide()
		p.becomes(lostPart)
		c.lost.Store(true)
		return nil
	case !p.divided:
		return nil
	}
	err := c.control("ROLLBACK TO " + savepoint)
	if err == nil {
		err = c.control("RELEASE " + savepoint)
	}
	if err != nil {
		c.lost.Store(true) // what cannot be undone by itself is undone with the rest
	}
	return err
}

// end ends the shared transaction, which has ended even if there is an error.
func (c *conn) end(statement string) error {
	defer func() {
		c.open = false
		c.lost.Store(false)
	}()
	err := errLost
	if c.open && !c.lost.Load() {
		err = c.control(statement)
	}
	if err != nil && c.open {
		_ = c.control("ROLLBACK") // an error if there is nothing left of it
	}
	return err
}

// control runs one of the statements that begin, divide and end the shared
// transaction.
func (c *conn) control(statement string) error {
	c.own = true
	defer func() { c.own = false }()
	_, err := c.exec(context.Background(), c.controls, statement, nil)
	return err
}

// MayControl implements [Guard].
func (c *conn) MayControl(statement, name string) bool {
	if c.own || c.shared.free.Load() {
		return true
	}
	if name != "" && !strings.EqualFold(name, savepoint) {
		// From now on: once compiled, the statement may run in any part.
		c.shared.divideAlways()
		if p := c.shared.part.Load(); c.inPart && !p.divided { // nothing would end what it leaves open
			p.becomes(oddPart)
			c.lost.Store(true)
			return false
		}
		return true
	}
	c.forbidden = strings.TrimSpace(statement + " " + name)
	return false
}

// MaySet implements [Guard].
func (c *conn) MaySet(statement string) bool {
	if c.own || c.shared.free.Load() {
		return true
	}
	c.forbidden = statement
	return false
}

// MayCommit implements [Guard].
func (c *conn) MayCommit() bool { return c.own || c.shared.free.Load() }

// RolledBack implements [Guard].
func (c *conn) RolledBack() {
	if c.open && !c.shared.free.Load() {
		c.lost.Store(true)
	}
}

// Close closes the connection; an open transaction is rolled back.
func (c *conn) Close() error {
	c.lost.Store(c.open)
	forget(c.statements)
	forget(c.controls)
	return c.driverConn.Close()
}

func forget(statements map[string]driver.Stmt) {
	for _, s := range statements {
		_ = s.Close()
	}
	clear(statements)
}

// ExecContext runs a statement and keeps it compiled, since parsing it takes as
// long as running it.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.shared.free.Load() {
		return c.driverConn.ExecContext(ctx, query, args)
	}
	_, own := ctx.(ownContext)
	ctx, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	r, err := c.exec(ctx, c.statements, query, args)
	c.noteExec(own, r, err)
	return r, c.explain(err)
}

// noteExec notes that the part may have written something. Statements of the
// store's own change rows and nothing else.
func (c *conn) noteExec(own bool, r driver.Result, err error) {
	if own && err == nil {
		if n, err := r.RowsAffected(); n == 0 && err == nil {
			return
		}
	}
	c.wrote()
}

// noteQuery is noteExec for a query. One that begins with SELECT only reads.
func (c *conn) noteQuery(query string) {
	const reads = "SELECT"
	query = strings.TrimLeft(query, " \t\r\n")
	if query != dataVersion && (len(query) < len(reads) || !strings.EqualFold(query[:len(reads)], reads)) {
		c.wrote()
	}
}

func (c *conn) wrote() {
	if p := c.shared.part.Load(); p != nil {
		p.wrote = true
	}
}

func (c *conn) exec(ctx context.Context, kept map[string]driver.Stmt, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.compiled(ctx, kept, query)
	if s == nil {
		if err == nil {
			return c.driverConn.ExecContext(ctx, query, args)
		}
		return nil, err
	}
	return s.(driver.StmtExecContext).ExecContext(ctx, args)
}

// compiled returns the compiled statement for a query, or nil if too many are
// kept already.
func (c *conn) compiled(ctx context.Context, kept map[string]driver.Stmt, query string) (driver.Stmt, error) {
	s := kept[query]
	if s != nil || len(kept) >= maxStatements {
		return s, nil
	}
	s, err := c.driverConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	kept[query] = s
	return s, nil
}

// QueryContext runs a query. The store's own queries are kept compiled: the store reads
// all rows of a query before it runs the same one again, which an effect need not do.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.shared.free.Load() {
		return c.driverConn.QueryContext(ctx, query, args)
	}
	_, own := ctx.(ownContext)
	ctx, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	if own {
		c.own = true
		defer func() { c.own = false }()
	}
	c.noteQuery(query)
	var s driver.Stmt
	if own || c.shared.effect.Load() == nil {
		if s, err = c.compiled(ctx, c.statements, query); err != nil {
			return nil, c.explain(err)
		}
	}
	var rows driver.Rows
	if s != nil {
		rows, err = s.(driver.StmtQueryContext).QueryContext(ctx, args)
	} else {
		rows, err = c.driverConn.QueryContext(ctx, query, args)
	}
	return rows, c.explain(err)
}

// PrepareContext compiles a statement.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.driverConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, c.explain(err)
	}
	return &statement{s, c, query}, nil
}

// enter returns the context for a statement of a part, or an error if there is
// no part to run it in.
func (c *conn) enter(ctx context.Context) (context.Context, error) {
	switch {
	case c.lost.Load():
		return nil, errLost
	case !c.inPart:
		return nil, fmt.Errorf("%w outside of its transaction: use it with Tx.StmtContext", ErrForbidden)
	}
	if _, own := ctx.(ownContext); own {
		return context.Background(), nil
	}
	if effect := c.shared.effect.Load(); effect != nil && ctx.Done() == nil {
		return *effect, nil
	}
	return ctx, nil
}

// explain adds the reason to err if the guard has refused the statement.
func (c *conn) explain(err error) error {
	name := c.forbidden
	c.forbidden = ""
	if err == nil || name == "" {
		return err
	}
	return fmt.Errorf("%w: %.80s: it shares its transaction and connection with others; to undo what it wrote it returns an error, or has a savepoint that is not called %s",
		ErrForbidden, name, savepoint)
}

// statement is a compiled statement that runs in parts.
type statement struct {
	driver.Stmt
	conn *conn
	text string
}

// ExecContext runs the statement in a part.
func (s *statement) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if !s.conn.shared.free.Load() {
		var err error
		if ctx, err = s.conn.enter(ctx); err != nil {
			return nil, err
		}
		s.conn.wrote()
	}
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

// QueryContext runs the query in a part.
func (s *statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if !s.conn.shared.free.Load() {
		var err error
		if ctx, err = s.conn.enter(ctx); err != nil {
			return nil, err
		}
		s.conn.noteQuery(s.text)
	}
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}
