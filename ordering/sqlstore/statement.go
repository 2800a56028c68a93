package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
)

// maxStatements bounds the statements of a connection that are kept compiled.
const maxStatements = 128

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

// QueryContext runs a query and keeps it compiled.
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
	rows, err := c.query(ctx, query, args)
	return rows, c.explain(err)
}

func (c *conn) query(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s := c.statements[query]
	delete(c.statements, query) // it belongs to the rows until they are closed
	if s == nil {
		var err error
		if s, err = c.driverConn.PrepareContext(ctx, query); err != nil {
			return nil, err
		}
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		c.keep(query, s)
		return nil, err
	}
	full, ok := rows.(driverRows)
	if !ok {
		return nil, errors.Join(fmt.Errorf("sqlstore: rows of type %T lack methods that the store needs", rows), rows.Close(), s.Close())
	}
	return &keptRows{full, c, query, s}, nil
}

// keep keeps a compiled statement, unless there are too many, or one of the same text.
func (c *conn) keep(query string, s driver.Stmt) {
	if _, is := c.statements[query]; is || len(c.statements) >= maxStatements {
		_ = s.Close()
		return
	}
	c.statements[query] = s
}

// driverRows lists the interfaces that a driver's rows must implement.
type driverRows interface {
	driver.Rows
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeLength
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

// keptRows are the rows of a compiled statement, which is kept when they are closed.
type keptRows struct {
	driverRows
	conn      *conn
	query     string
	statement driver.Stmt
}

// Close closes the rows.
func (r *keptRows) Close() error {
	err := r.driverRows.Close()
	r.conn.keep(r.query, r.statement)
	return err
}

// PrepareContext compiles a statement.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.driverConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, c.explain(err)
	}
	return &statement{s, c, query}, nil
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
