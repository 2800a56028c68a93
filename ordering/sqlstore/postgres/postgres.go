// Package postgres opens stores in PostgreSQL databases, by the driver pgx.
//
// # What a store needs of its database
//
//   - A server from version 12 on, and a user who may create tables in the first
//     schema of the search path, once, and read and write them.
//   - Sessions of its own: a direct connection, or a pooler that pools by
//     session. Behind one that pools by transaction or statement, as PgBouncer
//     can, [Open] fails with [sqlstore.ErrPooled]. The pooler must have a session
//     for each of the store's connections.
//   - Connections: 64 for the transactions of handlers, which is as many as
//     ordering.Config.Dispatcher.Workers are by default, or what the URL says with
//     pool_max_conns; 8 for the store's own work; 16 for callers of Store.DB. They
//     are opened as they are needed, and those that are idle for 5 minutes are
//     closed. With its max_connections of 100, a server has room for one store
//     at full load: raise it for several, or set pool_max_conns. A sequencer with
//     more workers than a store has connections for says so in its log; the
//     workers wait for each other then.
//   - READ COMMITTED, the default, as the isolation level. A stricter one is
//     right as well, but transactions that others get in the way of are tried
//     again, as failed attempts.
//   - synchronous_commit on, the default, if what is said to be durable is to
//     survive a crash of the server.
//
// # Time limits
//
// A holder that is frozen in the middle of a transaction, as a virtual machine
// that is paused or a process that is stopped, keeps the rows of its streams, and
// who takes them over waits for them: until the server ends a session that is
// idle in a transaction. The store's connections ask it to do so after 15
// seconds, by idle_in_transaction_session_timeout, unless the server, the
// database or the user has a value for that, or the URL has:
//
//	postgres://user@host/database?idle_in_transaction_session_timeout=60s
//
// So that is how long taking over can take, and how long an effect, which has the
// transaction, may wait for something else than the database. What a frozen
// holder wrote is undone, and if it wakes up its commit fails. An effect in all
// may take 30 seconds, see [sqlstore.Store.LimitEffects]. To connect may take 10
// seconds, or what the URL says with connect_timeout.
//
// # Two processes
//
// Several processes may have stores in one database. Each stream belongs to
// whoever acquired it last, which a sequencer does when an event of the stream
// comes for the first time, or again after it was idle. The one before keeps all
// its other streams; its next commit, skip, parking or holding for that stream,
// also one that is under way, is refused with [ordering.ErrFenced], with its
// effect. Nothing tells it before. An effect that commits before the other acquires
// counts, and the other sees it. What a handler reads past its transaction, or
// keeps in memory, is not covered: two processes that both take events of one
// resource, under different streams, are not kept from each other by anything.
package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// The most connections that a store uses: for handlers, if the URL does not say,
// for itself, and for its callers.
const (
	handlers = 64
	own      = 8
	callers  = 16
)

const (
	connectTime = 10 * time.Second // unless the URL says connect_timeout
	idleTime    = 5 * time.Minute  // after which a connection is closed
	idleLimit   = "15s"            // in a transaction
)

// Open opens the database at a URL, such as postgres://user@host/database, or
// a DSN as libpq has them. Several processes may do so: each stream belongs to
// whoever acquired it last. Commits are as durable as the server's
// synchronous_commit makes them, which is on unless it was changed.
//
// The error never shows the URL, which may have a password in it; it wraps
// [ordering.ErrSchema] for a database of a newer program, and
// [sqlstore.ErrPooled] behind a pooler that takes sessions away.
func Open(ctx context.Context, url string) (*sqlstore.Store, error) {
	config, connections, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	connector := stdlib.GetConnector(*config, stdlib.OptionAfterConnect(limitIdle(config)))
	store, err := sqlstore.NewPostgres(ctx, sqlstore.Pools{
		Handlers: pool(guarded{connector}, connections), Own: pool(connector, own), Reads: pool(connector, callers),
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: database %s at %s: %w", config.Database, config.Host, err)
	}
	return store, nil
}

func pool(connector driver.Connector, connections int) *sql.DB {
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(idleTime)
	return db
}

// errURL says nothing of what is wrong with a URL: a password that is not
// escaped can be in any part of it.
var errURL = errors.New("the URL of the database cannot be read: it is to be postgres://user:password@host:port/database?parameter=value, " +
	"with other characters of the password than letters and digits as % and two hexadecimal digits, or pairs like host=name user=name")

// parse reads a URL, and takes out what is the store's.
func parse(text string) (config *pgx.ConnConfig, connections int, err error) {
	password := ""
	if strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://") {
		u, err := url.Parse(text)
		if err != nil || u.User == nil && strings.Contains(text, "@") || u.Fragment != "" {
			return nil, 0, errURL
		}
		password, _ = u.User.Password()
	}
	if config, err = pgx.ParseConfig(text); err != nil {
		cause := errors.Unwrap(err) // without the URL, which the driver quotes
		if cause == nil || password != "" && strings.Contains(cause.Error(), password) {
			return nil, 0, errURL
		}
		return nil, 0, fmt.Errorf("the URL of the database has a wrong part: %w", cause)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTime
	}
	connections = handlers
	if value, ok := config.RuntimeParams["pool_max_conns"]; ok {
		delete(config.RuntimeParams, "pool_max_conns")
		if connections, err = strconv.Atoi(value); err != nil || connections < 1 {
			return nil, 0, errors.New("pool_max_conns is not a positive number")
		}
	}
	return config, connections, nil
}

// limitIdle returns what sets the limit for sessions that are idle in a
// transaction. Poolers refuse it where the driver would say it, as a parameter of
// a new connection.
func limitIdle(config *pgx.ConnConfig) func(ctx context.Context, c *pgx.Conn) error {
	const name = "idle_in_transaction_session_timeout"
	statement := `SELECT set_config('` + name + `', '` + idleLimit + `', false) WHERE current_setting('` + name + `') = '0'`
	if value, ok := config.RuntimeParams[name]; ok {
		delete(config.RuntimeParams, name)
		statement = `SET ` + name + ` = '` + strings.ReplaceAll(value, `'`, `''`) + `'`
	}
	return func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, statement)
		return err
	}
}
