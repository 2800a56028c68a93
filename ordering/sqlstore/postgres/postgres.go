// Package postgres opens stores in PostgreSQL databases, with the driver pgx, and gives
// handlers its transactions.
//
// # Requirements of the database
//
//   - A server from version 12 on, and a user who may create tables in the first
//     schema of the search path, once, and read and write them.
//   - Sessions of its own: a direct connection, or a pooler that pools by
//     session. Behind one that pools by transaction or statement, as PgBouncer
//     can, [Open] fails with [sqlstore.ErrPooled]. The pooler must have a session
//     for each of the store's connections.
//   - Connections: 64 for the transactions of handlers, which is as many as
//     ordering.Config.Dispatcher.Workers are by default, or what the URL says with
//     pool_max_conns; 8 for the store's own work; 16 for callers of Store.DB. They are
//     opened when needed, and closed after 5 idle minutes. With its default
//     max_connections of 100, a server has room for one store at full load: for
//     several, raise that or set pool_max_conns. A sequencer with more workers than the
//     store has connections logs that; its workers then wait for each other.
//   - READ COMMITTED, the default, as the isolation level. A stricter one is
//     correct as well, but transactions with conflicts are tried again, as failed
//     attempts.
//   - default_query_exec_mode of the URL as it is by default. simple_protocol is taken
//     for exec, since it would send several statements as one.
//   - The right to end sessions of the same user, which users have by default
//     (pg_terminate_backend). Without it, the outcome of a commit whose connection was
//     lost is known only once the server has noticed that.
//   - synchronous_commit on, the default, if commits are to survive a crash of the
//     server.
//
// # Time limits
//
// A holder that is frozen in the middle of a transaction, in a paused virtual
// machine or a stopped process for example, keeps the rows locked that its effect has
// written. Effects of the next term that need these wait until the server ends the
// session, which is idle in a transaction. The store sets a limit of 15 seconds for
// that, idle_in_transaction_session_timeout, unless the server, the database, the user
// or the URL has a value:
//
//	postgres://user@host/database?idle_in_transaction_session_timeout=60s
//
// So an effect of the next term may have to wait that long. And an effect must not wait
// longer than that for anything but the database, since it has a transaction. The
// writes of a frozen holder are rolled back, and if it wakes up its commit fails. An
// effect may take 30 seconds in total, see [sqlstore.Store.LimitEffects], and
// connecting 10 seconds, or connect_timeout in the URL.
//
// # Two processes
//
// Several processes may have stores in one database. For each consumer name and
// partition only the latest term can write: see [ordering.Store]. Terms of different
// partitions share the consumer's streams. Each stream belongs to the term that
// acquired it last, which a sequencer does when an event of the stream comes for
// the first time, or again after it was idle. The previous term keeps all its other
// streams; its next commit, skip, parking or holding for that stream, also one in
// progress, is refused with [ordering.ErrFenced], with its effect. It is not
// notified before. An effect committed before the acquisition counts, and the new
// term sees it. Data that a handler reads outside of its transaction, or keeps in
// memory, are not protected: nothing excludes two partitions from each other that
// both process events of one resource, under different streams.
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

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// Bounds of connections: for handlers, unless set in the URL, for the store itself,
// and for its callers.
const (
	handlers = 64
	own      = 8
	callers  = 16
)

const (
	connectTime = 10 * time.Second // unless the URL says connect_timeout
	idleTime    = 5 * time.Minute  // after which a connection is closed
	pingTime    = 15 * time.Second // after which it is tried before it is used again
	idleLimit   = "15s"            // in a transaction
)

// Open opens the database at a URL, such as postgres://user@host/database, or with
// a DSN of libpq. Several processes may do so, see above. Commits are as durable as
// the server's synchronous_commit makes them, which is on by default.
//
// The error never contains the URL, which may have a password; it wraps
// [ordering.ErrSchema] for a database of a newer program, and
// [sqlstore.ErrPooled] behind a pooler that shares sessions.
func Open(ctx context.Context, url string) (*sqlstore.Store, error) {
	config, connections, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	options := []stdlib.OptionOpenDB{stdlib.OptionAfterConnect(limitIdle(config)),
		stdlib.OptionShouldPing(func(_ context.Context, p stdlib.ShouldPingParams) bool { return p.IdleDuration > pingTime })}
	connector := stdlib.GetConnector(*config, options...)
	unprepared := config.Copy() // what the store does itself is so rare that to prepare it would be most of its round trips
	unprepared.DefaultQueryExecMode = pgx.QueryExecModeExec
	store, err := sqlstore.NewPostgres(ctx, sqlstore.Pools{
		Handlers: pool(guarded{connector}, connections), Own: pool(stdlib.GetConnector(*unprepared, options...), own), Reads: pool(connector, callers),
	})
	return store, about(config, err)
}

// OpenReadOnly opens a database to look at it: see [sqlstore.ReadOnly]. Its sessions are
// read-only, and 4 at most.
func OpenReadOnly(ctx context.Context, url string) (*sqlstore.ReadOnly, error) {
	config, _, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	r, err := sqlstore.NewReadOnly(ctx, look(config), sqldb.PostgreSQL)
	return r, about(config, err)
}

// OpenOperator opens a database to look at it, as OpenReadOnly does, and to leave requests
// in it: see [sqlstore.Operator].
func OpenOperator(ctx context.Context, url string) (*sqlstore.Operator, error) {
	config, _, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	o, err := sqlstore.NewOperator(ctx, look(config), pool(stdlib.GetConnector(*config), 1), sqldb.PostgreSQL)
	return o, about(config, err)
}

// look returns connections whose sessions can only read.
func look(config *pgx.ConnConfig) *sql.DB {
	config = config.Copy()
	config.RuntimeParams["default_transaction_read_only"] = "on"
	const few = 4
	return pool(stdlib.GetConnector(*config), few)
}

// about names the database in an error.
func about(config *pgx.ConnConfig, err error) error {
	if err != nil {
		err = fmt.Errorf("postgres: database %s at %s: %w", config.Database, config.Host, err)
	}
	return err
}

func pool(connector driver.Connector, connections int) *sql.DB {
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(idleTime)
	return db
}

// errURL quotes nothing of the URL: an unescaped password may be in any part of it.
var errURL = errors.New("the URL of the database cannot be parsed: write it as postgres://user:password@host:port/database?parameter=value, " +
	"with other characters of the password than letters and digits as % and two hexadecimal digits, or pairs like host=name user=name")

// parse parses a URL, and removes the store's own parameters.
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
	if config.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		config.DefaultQueryExecMode = pgx.QueryExecModeExec // in which a text is one statement
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

// limitIdle returns a function that sets the limit for sessions that are idle in a
// transaction. Poolers refuse it as a parameter of a new connection, where the
// driver would send it.
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
