package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
)

// SQLite says how an SQLite database is opened; package sqlite does so for its
// driver.
type SQLite struct {
	// Writes opens the connection with which the store writes. There is one at a time,
	// which must implement [driver.ConnBeginTx], [driver.ConnPrepareContext],
	// [driver.ExecerContext], [driver.QueryerContext], [driver.Pinger],
	// [driver.SessionResetter] and [driver.Validator].
	Writes driver.Connector
	// Guard makes a connection of Writes consult a guard.
	Guard func(driver.Conn, Guard) error
	Own   *sql.DB // for the store's own reads, with several connections
	Reads *sql.DB // for [Store.DB]
}

// Guard is consulted by the connection with which a store writes, on the
// goroutine that uses the connection, during its call.
type Guard interface {
	// MayControl reports whether a statement may be compiled that begins or
	// ends a transaction, such as COMMIT, or divides one, such as RELEASE; the
	// savepoint is "" for the former.
	MayControl(statement, savepoint string) bool
	// MaySet reports whether a statement may be compiled that changes the
	// connection rather than the database: a pragma, ATTACH or DETACH.
	MaySet(statement string) bool
	// MayCommit reports whether SQLite may commit; if not it rolls back.
	MayCommit() bool
	// RolledBack must be called when SQLite has rolled back a transaction, not
	// only to a savepoint.
	RolledBack()
}

// ErrForbidden is wrapped by the error of a statement that an effect must not use: one
// that would end its transaction; one that would change the connection for the effects
// that follow, as SET does on PostgreSQL; there also a text of several statements. Savepoints are
// allowed, except, on SQLite, one with the name that the store itself uses.
var ErrForbidden = errors.New("sqlstore: an effect must not use this statement")

// ErrEnded is wrapped by the error of an effect that has ended its transaction,
// which only the store may commit: by calling Commit or Rollback, or by a
// statement that makes the database roll back, such as INSERT OR ROLLBACK on
// SQLite. It is rolled back.
var ErrEnded = errors.New("sqlstore: the effect has ended its transaction")

// errLost is the error of a shared transaction that was rolled back.
var errLost = errors.New("sqlstore: SQLite has rolled back the shared transaction")

// errWhole is the error of a part that was undone together with all others.
var errWhole = errors.New("sqlstore: the shared transaction is undone with it")

// savepoint is the name of the store's own.
const savepoint = "interlock_part"

// shared is the connection by which an SQLite store writes, and the transaction
// on it that the requests of a group share. Each has a part of that: a [sql.Tx]
// of its own, so nothing that it keeps can be used in another part.
//
// Usually a part is nothing more than that: if one fails after it has written, the
// whole transaction is undone, and the other effects are called again. The next parts
// are savepoints then, which can be undone alone but take time, so that effects that
// often fail do not make all others run twice. Once an effect has used a savepoint, all
// parts are savepoints, since what it leaves open must end with its part.
//
// Invariant: on this connection SQLite commits only in [shared.commit], and while
// [shared.alone] runs. So after an effect has lost the transaction, by a statement that
// makes SQLite roll back, it cannot write anything, although each of its statements
// would now be a transaction of its own.
//
// Only the writer calls it, one call at a time.
type shared struct {
	db      *sql.DB // of one connection; Prepare may come in between
	free    atomic.Bool
	first   atomic.Bool                     // the next part begins the transaction
	keeping atomic.Bool                     // the writer is ending a part
	part    atomic.Pointer[part]            // the latest
	effect  atomic.Pointer[context.Context] // of the effect that has the part

	dividing atomic.Int64 // the number of parts to come that are savepoints
	always   atomic.Bool  // all of them are
}

// dividedParts is how many parts are savepoints after one could not be undone
// alone.
const dividedParts = 256

// divide makes the next parts savepoints.
func (s *shared) divide() { s.dividing.Store(dividedParts) }

// divideAlways makes all further parts savepoints.
func (s *shared) divideAlways() { s.always.Store(true) }

// divides reports whether the part that begins is to be a savepoint.
func (s *shared) divides() bool {
	return s.always.Load() || s.dividing.Load() > 0 && s.dividing.Add(-1) >= 0
}

func newShared(s SQLite) *shared {
	c := &shared{}
	c.db = sql.OpenDB(connector{s, c})
	c.db.SetMaxOpenConns(1)
	return c
}

// begin begins a part; the first one begins the transaction. The error wraps
// errLost if that was rolled back.
func (s *shared) begin(first bool) (*sql.Tx, error) {
	s.first.Store(first)
	return s.db.BeginTx(context.Background(), nil)
}

// again reports whether the part must be run again, as a savepoint.
func (s *shared) again() bool { return s.part.Load().is(oddPart) }

// keep ends a part and keeps its writes. The error is ErrEnded if the part has ended
// already, which undoes it; any other error wraps errLost or errWhole.
func (s *shared) keep(tx *sql.Tx) error {
	s.keeping.Store(true)
	err := tx.Commit()
	s.keeping.Store(false)
	switch part := s.part.Load(); {
	case part.is(lostPart):
		return errWhole
	case part.conn.lost.Load():
		return errLost
	case !errors.Is(err, sql.ErrTxDone):
		return err
	case part.is(keptPart): // the effect called Commit just then
		return nil
	}
	return ErrEnded
}

// undo undoes a part, with everything open in it. After an error the whole transaction
// must be undone; the error is errWhole if nothing else is wrong with it.
func (s *shared) undo(tx *sql.Tx) error {
	err := tx.Rollback()
	switch part := s.part.Load(); {
	case part.is(lostPart):
		return errWhole
	case part.conn.lost.Load():
		return errLost
	}
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// commit commits the transaction. After an error it is undone.
func (s *shared) commit() error { return s.end("COMMIT") }

// rollback undoes the transaction, if there is one.
func (s *shared) rollback() { _ = s.end("ROLLBACK") }

func (s *shared) end(statement string) error {
	c, err := s.db.Conn(context.Background())
	if err != nil {
		return err
	}
	err = c.Raw(func(c any) error { return c.(*conn).end(statement) })
	return errors.Join(err, c.Close())
}

// alone runs do, which may use the connection without restrictions. There must
// be no transaction.
func (s *shared) alone(do func(db *sql.DB) error) error {
	s.free.Store(true)
	defer s.free.Store(false)
	return do(s.db)
}

// lend gives the part to an effect until back is called: statements without a
// deadline of their own then end with ctx.
func (s *shared) lend(ctx context.Context) (back func()) {
	s.effect.Store(&ctx)
	return func() { s.effect.Store(nil) }
}

// connector makes the connections of a shared.
type connector struct {
	SQLite
	shared *shared
}

func (c connector) Driver() driver.Driver { return c.Writes.Driver() }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := c.Writes.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := raw.(driverConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("sqlstore: a connection of type %T lacks methods that the store needs", raw), raw.Close())
	}
	guarded := &conn{driverConn: inner, shared: c.shared, statements: map[string]driver.Stmt{}, controls: map[string]driver.Stmt{}}
	if err := c.Guard(raw, guarded); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return guarded, nil
}
