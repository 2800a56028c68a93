package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync/atomic"
)

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
