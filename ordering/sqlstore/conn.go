package sqlstore

import (
	"context"
	"database/sql/driver"
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
