package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrPooled is wrapped by the error of [CheckSessions].
var ErrPooled = errors.New("a pooler, such as PgBouncer with pool_mode=transaction, shares the server's sessions " +
	"between connections: connect to the server itself, or set pool_mode=session")

// CheckSessions returns an error that wraps [ErrPooled] unless each connection of a
// PostgreSQL database has a session of its own: a pooler that pools by transaction
// or statement, as PgBouncer can, gives it another session each time, and settings,
// locks and prepared statements stay with other connections. db must allow two
// connections.
//
// A first connection asks for its session and becomes idle; while a second one has
// a transaction open, the first asks again. Without such a pooler, the first one
// still has the same session, and the second has another. With one, either the
// second has got the session of the first, which shows, or another client has, and
// then the first usually gets another one: so the check is repeated. If there are
// no other clients, the first check finds the pooler, however many sessions it has.
func CheckSessions(ctx context.Context, db *sql.DB) error {
	if db.Stats().MaxOpenConnections == 1 {
		return errors.New("the database must be opened with two connections or more, see sql.DB.SetMaxOpenConns")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, sessionTimeout, errors.New("the database, or a pooler before it, gave no second connection"))
	defer cancel()
	conn, err := db.Conn(ctx)
	if err == nil {
		defer conn.Close()
		for range sessionRounds {
			if err = checkSession(ctx, db, conn); err != nil {
				break
			}
		}
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

const (
	sessionTimeout = 15 * time.Second
	sessionRounds  = 8
)

func checkSession(ctx context.Context, db *sql.DB, conn *sql.Conn) error {
	first, err := session(ctx, conn)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return byState(err)
	}
	defer func() { _ = tx.Rollback() }()
	other, err := session(ctx, tx)
	if err != nil || other == first {
		return pooled(err)
	}
	again, err := session(ctx, conn)
	if err != nil || again != first {
		return pooled(err)
	}
	return nil
}

// session returns the process ID of the server's session for a connection.
func session(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (pid int64, err error) {
	err = db.QueryRowContext(ctx, `SELECT pg_backend_pid()`).Scan(&pid)
	return pid, byState(err)
}

func pooled(err error) error {
	if err == nil {
		err = ErrPooled
	}
	return err
}

// byState marks an error caused by a pooler: a statement that was prepared in
// another session, or exists already, or a transaction that is not allowed.
func byState(err error) error {
	states := []string{"26000", "42P05", "08P01"}
	var server interface{ SQLState() string }
	if errors.As(err, &server) && slices.Contains(states, server.SQLState()) {
		return fmt.Errorf("%w: %w", ErrPooled, err)
	}
	return err
}
