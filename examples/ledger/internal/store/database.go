package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// Database is a store in an SQLite or a PostgreSQL database, in tables beside
// those in which [sqlstore.Store] keeps the numbers of messages.
//
// Invariant: of all programs that have opened a database only the last one
// commits, since the locks of several know nothing of each other. On SQLite the
// session of [sqlstore.Store] sees to that, on PostgreSQL the table holder: a
// program begins by changing the term in it, for which it waits until every
// transaction has ended that has read it, and each commit reads it. So whoever
// has begun sees all that was committed before, and nothing is after.
type Database struct {
	name     string
	guard    string // what makes a row be inserted by the holder only
	numbers  *sqlstore.Store
	messages atomic.Int64 // committed

	cache                                  cache
	subtree, all, exists, existsAny, known *sql.Stmt
	states, amounts                        byNumber
	guarded                                struct{ journal, refusal *sql.Stmt } // on PostgreSQL
}

var (
	//go:embed sqlite.sql
	sqliteTables string
	//go:embed sqlite-2.sql
	sqliteTables2 string
	//go:embed sqlite-3.sql
	sqliteTables3 string
	//go:embed postgres.sql
	postgresTables string
	//go:embed postgres-2.sql
	postgresTables2 string
	//go:embed postgres-3.sql
	postgresTables3 string
)

// OpenSQLite opens the database at path and makes it if it is not there.
// Commits survive a crash of the machine (write-ahead log, synchronous=FULL).
// SQLite has one writer at a time, so the changes of all messages that wait at
// the same time are written in one transaction.
func OpenSQLite(ctx context.Context, path string) (Store, error) {
	if err := Inspect(ctx, path, "journal", "ordering_", "schema_versions", "sqlite_"); err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	numbers, err := sqlite.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	return open(ctx, numbers, "SQLite (WAL, synchronous=FULL)", sqliteTables, sqliteTables2, sqliteTables3)
}

// OpenPostgres opens the database at a URL. Each message has a transaction of
// its own there, or one with others of its chain. It waits, for a minute at most, until the transactions of the
// program that has the database have ended.
func OpenPostgres(ctx context.Context, url string) (Store, error) {
	numbers, err := postgres.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return open(ctx, numbers, onPostgres, postgresTables, postgresTables2, postgresTables3)
}

const onPostgres = "PostgreSQL"

func open(ctx context.Context, numbers *sqlstore.Store, name string, steps ...string) (Store, error) {
	d := &Database{name: name, numbers: numbers}
	if err := numbers.Migrate(ctx, "ledger", steps); err != nil {
		err = fmt.Errorf("the tables of the ledger cannot be made: if others have their names, give another database: %w", err)
		return nil, errors.Join(err, d.Close())
	}
	err := d.takeOver(ctx)
	if err == nil {
		err = d.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

const below = `(account = $1 OR (account >= $1 || ':' AND account < $1 || ';'))`

func (d *Database) prepare(ctx context.Context) error {
	d.cache.forget()
	for _, p := range []struct {
		query **sql.Stmt
		text  string
	}{
		{&d.subtree, `SELECT account, commodity, amount FROM balances WHERE ` + below},
		{&d.all, `SELECT account, commodity, amount FROM balances`},
		{&d.exists, `SELECT EXISTS (SELECT 1 FROM accounts WHERE ` + below + `)`},
		{&d.existsAny, `SELECT EXISTS (SELECT 1 FROM accounts)`},
		{&d.known, `SELECT digest, answer FROM known WHERE id = $1`},
	} {
		query, err := d.numbers.DB().PrepareContext(ctx, p.text)
		if err != nil {
			return err
		}
		*p.query = query
	}
	if d.guard == "" {
		return nil
	}
	var errs [2]error
	d.guarded.journal, errs[0] = d.numbers.Prepare(ctx, `INSERT INTO journal (event, message) SELECT CAST($1 AS text), CAST($2 AS text)`+d.guard)
	d.guarded.refusal, errs[1] = d.numbers.Prepare(ctx, `INSERT INTO refusals (event, input, line, reason, detail, message)
		SELECT CAST($1 AS text), CAST($2 AS bigint), CAST($3 AS bigint), CAST($4 AS text), CAST($5 AS text), CAST($6 AS text)`+d.guard)
	return errors.Join(errs[:]...)
}

// Numbers implements [Store].
func (d *Database) Numbers() ordering.Store { return d.numbers }

// Stats implements [Store].
func (d *Database) Stats() Stats {
	return Stats{Commits: d.numbers.Commits(), Messages: d.messages.Load()}
}

// Name implements [Store].
func (d *Database) Name() string { return d.name }

// Close implements [Store].
func (d *Database) Close() error { return d.numbers.Close() }
