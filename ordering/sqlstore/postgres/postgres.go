// Package postgres opens stores in PostgreSQL databases, by the driver pgx.
package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// connections is the most connections that a store uses.
const connections = 32

// Open opens the database at a URL, such as postgres://user@host/database, or
// a DSN as libpq has them. Several processes may do so: each stream belongs to
// whoever acquired it last. Commits are as durable as the server's
// synchronous_commit makes them, which is on unless it was changed.
//
// A holder that is frozen in the middle of a transaction, as a virtual machine
// that is paused, keeps the rows of that until the server ends its session: the
// parameter idle_in_transaction_session_timeout of the URL says when, and must
// be longer than any effect takes.
//
// The error does not show the URL, which may have a password in it; it wraps
// [ordering.ErrSchema] for a database of a newer program.
func Open(ctx context.Context, url string) (*sqlstore.Store, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	store, err := sqlstore.NewPostgres(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("postgres: database %s at %s: %w", config.Database, config.Host, err)
	}
	return store, nil
}
