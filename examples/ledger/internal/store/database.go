package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
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

	subtree, all, exists, existsAny, known query
	writes                                 struct {
		state, balance, journal, closing, refusal, known *sql.Stmt
	}

	states, amounts byNumber
}

// query is a query prepared for reads on a connection of their own, and for those in
// a transaction of [sqlstore.Store.Together], which must see what the messages before
// have written there.
type query struct{ outside, together *sql.Stmt }

func (d *Database) query(ctx context.Context, text string) (q query, err error) {
	if q.outside, err = d.numbers.DB().PrepareContext(ctx, text); err == nil {
		q.together, err = d.numbers.Prepare(ctx, text)
	}
	return q, err
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
	for _, p := range []struct {
		query *query
		text  string
	}{
		{&d.subtree, `SELECT account, commodity, amount FROM balances WHERE ` + below},
		{&d.all, `SELECT account, commodity, amount FROM balances`},
		{&d.exists, `SELECT EXISTS (SELECT 1 FROM accounts WHERE ` + below + `)`},
		{&d.existsAny, `SELECT EXISTS (SELECT 1 FROM accounts)`},
		{&d.known, `SELECT digest, answer FROM known WHERE id = $1`},
	} {
		q, err := d.query(ctx, p.text)
		if err != nil {
			return err
		}
		*p.query = q
	}
	for n := range 8 { // as most messages need: two accounts of up to four segments
		if _, err := d.States(ctx, make([]book.Account, n+1)); err != nil {
			return err
		}
	}
	for n := range 2 {
		if _, err := d.Amounts(ctx, make([]book.Holding, n+1)); err != nil {
			return err
		}
	}
	for _, p := range []struct {
		statement **sql.Stmt
		text      string
	}{
		{&d.writes.state, `INSERT INTO accounts (account, state) VALUES ($1, $2)
			ON CONFLICT (account) DO UPDATE SET state = excluded.state`},
		{&d.writes.balance, `INSERT INTO balances (account, commodity, amount) VALUES ($1, $2, $3)
			ON CONFLICT (account, commodity) DO UPDATE SET amount = excluded.amount`},
		{&d.writes.closing, `INSERT INTO closings (event, commodity, total) VALUES ($1, $2, $3)`},
		{&d.writes.known, `INSERT INTO known (id, digest, answer) VALUES ($1, $2, $3)`},
		{&d.writes.journal, `INSERT INTO journal (event, message) SELECT CAST($1 AS text), CAST($2 AS text)` + d.guard},
		{&d.writes.refusal, `INSERT INTO refusals (event, input, line, reason, detail, message)
			SELECT CAST($1 AS text), CAST($2 AS bigint), CAST($3 AS bigint), CAST($4 AS text), CAST($5 AS text), CAST($6 AS text)` + d.guard},
	} {
		statement, err := d.numbers.Prepare(ctx, p.text)
		if err != nil {
			return err
		}
		*p.statement = statement
	}
	return nil
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
