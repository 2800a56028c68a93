package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"sync"
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
// Only one program may work on a database at a time. One that opens it takes
// it over: the commits of the one before fail from then on.
type Database struct {
	name     string
	numbers  *sqlstore.Store
	messages atomic.Int64 // committed

	balance, subtree, all, exists, existsAny *sql.Stmt
	writes                                   struct {
		state, balance, journal, closing *sql.Stmt
	}

	mu struct {
		sync.Mutex
		states map[int]*sql.Stmt // by the number of accounts asked for
	}
}

var (
	//go:embed sqlite.sql
	sqliteTables string
	//go:embed postgres.sql
	postgresTables string
)

// OpenSQLite opens the database at path and makes it if it is not there.
// Commits survive a crash of the machine (write-ahead log, synchronous=FULL).
// SQLite has one writer at a time, so the changes of all messages that wait at
// the same time are written in one transaction.
func OpenSQLite(ctx context.Context, path string) (Store, error) {
	numbers, err := sqlite.Open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	return open(ctx, numbers, "SQLite (WAL, synchronous=FULL)", sqliteTables)
}

// OpenPostgres opens the database at a URL. Each message has a transaction of
// its own there.
func OpenPostgres(ctx context.Context, url string) (Store, error) {
	numbers, err := postgres.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return open(ctx, numbers, "PostgreSQL", postgresTables)
}

func open(ctx context.Context, numbers *sqlstore.Store, name, tables string) (Store, error) {
	d := &Database{name: name, numbers: numbers}
	d.mu.states = map[int]*sql.Stmt{}
	if err := numbers.Migrate(ctx, "ledger", []string{tables}); err != nil {
		err = fmt.Errorf("the tables of the ledger cannot be made: if others have their names, give another database: %w", err)
		return nil, errors.Join(err, d.Close())
	}
	if err := d.prepare(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

const below = `(account = $1 OR (account >= $1 || ':' AND account < $1 || ';'))`

func (d *Database) prepare(ctx context.Context) error {
	for _, p := range []struct {
		statement **sql.Stmt
		text      string
	}{
		{&d.balance, `SELECT amount FROM balances WHERE account = $1 AND commodity = $2`},
		{&d.subtree, `SELECT account, commodity, amount FROM balances WHERE ` + below},
		{&d.all, `SELECT account, commodity, amount FROM balances`},
		{&d.exists, `SELECT EXISTS (SELECT 1 FROM accounts WHERE ` + below + `)`},
		{&d.existsAny, `SELECT EXISTS (SELECT 1 FROM accounts)`},
	} {
		statement, err := d.numbers.DB().PrepareContext(ctx, p.text)
		if err != nil {
			return err
		}
		*p.statement = statement
	}
	for _, p := range []struct {
		statement **sql.Stmt
		text      string
	}{
		{&d.writes.state, `INSERT INTO accounts (account, state) VALUES ($1, $2)
			ON CONFLICT (account) DO UPDATE SET state = excluded.state`},
		{&d.writes.balance, `INSERT INTO balances (account, commodity, amount) VALUES ($1, $2, $3)
			ON CONFLICT (account, commodity) DO UPDATE SET amount = excluded.amount`},
		{&d.writes.journal, `INSERT INTO journal (event, message) VALUES ($1, $2)`},
		{&d.writes.closing, `INSERT INTO closings (event, commodity, total) VALUES ($1, $2, $3)`},
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

// Commit implements [Store]. A context that ends while the changes still wait
// for their turn withdraws them.
func (d *Database) Commit(ctx context.Context, job ordering.Job, c *book.Changes) error {
	err := d.numbers.Do(ctx, job, func(ctx context.Context, tx *sql.Tx) error {
		event := job.Event.Name()
		for account, state := range c.States {
			if _, err := tx.StmtContext(ctx, d.writes.state).ExecContext(ctx, string(account), int64(state)); err != nil {
				return err
			}
		}
		for h, amount := range c.Balances {
			text := book.Amount{Decimal: amount}.String()
			if _, err := tx.StmtContext(ctx, d.writes.balance).ExecContext(ctx, string(h.Account), string(h.Commodity), text); err != nil {
				return err
			}
		}
		for _, m := range c.Closing {
			if _, err := tx.StmtContext(ctx, d.writes.closing).ExecContext(ctx, event, string(m.Commodity), m.Amount.String()); err != nil {
				return err
			}
		}
		_, err := tx.StmtContext(ctx, d.writes.journal).ExecContext(ctx, event, string(job.Event.Payload))
		return err
	})
	if err == nil {
		d.messages.Add(1)
	}
	return err
}

// Stats implements [Store].
func (d *Database) Stats() Stats {
	return Stats{Commits: d.numbers.Commits(), Messages: d.messages.Load()}
}

// Name implements [Store].
func (d *Database) Name() string { return d.name }

// Close implements [Store].
func (d *Database) Close() error { return d.numbers.Close() }
