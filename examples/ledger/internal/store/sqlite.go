package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/shopspring/decimal"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// SQLite is a store in an SQLite database. Commits survive a crash of the
// machine (write-ahead log, synchronous=FULL). SQLite has one writer at a
// time, so the changes of all messages that wait at the same time are written
// in one transaction; see [committer].
//
// Only one program may change a database at a time. When another one has, the
// next commit fails, before anything that was read too early is written.
type SQLite struct {
	path      string
	reads     *sql.DB
	committer *committer

	balance, subtree, all, exists, existsAny *sql.Stmt

	mu     sync.Mutex
	states map[int]*sql.Stmt // by the number of accounts asked for
}

//go:embed schema.sql
var schema string

const schemaVersion = 1

// readers is the most connections that read at the same time.
const readers = 4

// OpenSQLite opens the database at path and makes it if it is not there.
func OpenSQLite(ctx context.Context, path string) (_ Store, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open database %s: %w", path, err)
		}
	}()
	writes, err := connect(path, 1)
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, writes); err != nil {
		return nil, errors.Join(err, writes.Close())
	}
	committer, err := startCommitter(ctx, writes)
	if err != nil {
		return nil, errors.Join(err, writes.Close())
	}
	s := &SQLite{path: path, committer: committer, states: map[int]*sql.Stmt{}}
	if s.reads, err = connect(path, readers); err != nil {
		return nil, errors.Join(err, committer.close())
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func connect(path string, connections int) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	options := url.Values{"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)"}}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: options.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// migrate makes the tables of a new database and refuses one of another kind.
func migrate(ctx context.Context, db *sql.DB) error {
	var version, tables int
	if err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil {
		return err
	}
	switch {
	case version == schemaVersion:
		return nil
	case version != 0 || tables > 0:
		return fmt.Errorf("it is not a ledger of this version (user_version is %d, not %d): give another path",
			version, schemaVersion)
	}
	_, err := db.ExecContext(ctx, fmt.Sprintf("BEGIN IMMEDIATE;\n%s\nPRAGMA user_version = %d;\nCOMMIT;", schema, schemaVersion))
	return err
}

const below = `(account = ?1 OR (account >= ?1 || ':' AND account < ?1 || ';'))`

func (s *SQLite) prepare(ctx context.Context) error {
	for _, p := range []struct {
		statement **sql.Stmt
		text      string
	}{
		{&s.balance, `SELECT amount FROM balances WHERE account = ? AND commodity = ?`},
		{&s.subtree, `SELECT account, commodity, amount FROM balances WHERE ` + below},
		{&s.all, `SELECT account, commodity, amount FROM balances`},
		{&s.exists, `SELECT EXISTS (SELECT 1 FROM accounts WHERE ` + below + `)`},
		{&s.existsAny, `SELECT EXISTS (SELECT 1 FROM accounts)`},
	} {
		statement, err := s.reads.PrepareContext(ctx, p.text)
		if err != nil {
			return err
		}
		*p.statement = statement
	}
	return nil
}

// States implements [book.Reader].
func (s *SQLite) States(ctx context.Context, accounts []book.Account) ([]book.State, error) {
	statement, err := s.statesFor(ctx, len(accounts))
	if err != nil {
		return nil, err
	}
	args := make([]any, len(accounts))
	for i, a := range accounts {
		args[i] = string(a)
	}
	states := make([]book.State, len(accounts))
	err = each(ctx, statement, args, func(scan scanFunc) error {
		var account book.Account
		var state book.State
		err := scan((*string)(&account), &state)
		if i := slices.Index(accounts, account); i >= 0 {
			states[i] = state
		}
		return err
	})
	return states, err
}

// statesFor returns the query for the states of n accounts.
func (s *SQLite) statesFor(ctx context.Context, n int) (*sql.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if statement, ok := s.states[n]; ok {
		return statement, nil
	}
	marks := strings.Repeat(", ?", n)
	statement, err := s.reads.PrepareContext(ctx,
		`SELECT account, state FROM accounts WHERE account IN (`+strings.TrimPrefix(marks, ", ")+`)`)
	if err == nil {
		s.states[n] = statement
	}
	return statement, err
}

// Balance implements [book.Reader].
func (s *SQLite) Balance(ctx context.Context, h book.Holding) (decimal.Decimal, error) {
	var amount decimal.Decimal
	err := each(ctx, s.balance, []any{string(h.Account), string(h.Commodity)}, func(scan scanFunc) error {
		return scan(&amount)
	})
	return amount, err
}

// Balances implements [book.Reader].
func (s *SQLite) Balances(ctx context.Context, subtree book.Account) ([]book.Posting, error) {
	statement, args := s.subtree, []any{string(subtree)}
	if subtree == book.Root {
		statement, args = s.all, nil
	}
	var list []book.Posting
	err := each(ctx, statement, args, func(scan scanFunc) error {
		var p book.Posting
		err := scan((*string)(&p.Account), (*string)(&p.Commodity), &p.Amount.Decimal)
		list = append(list, p)
		return err
	})
	return list, err
}

// Exists implements [book.Reader].
func (s *SQLite) Exists(ctx context.Context, subtree book.Account) (exists bool, err error) {
	statement, args := s.exists, []any{string(subtree)}
	if subtree == book.Root {
		statement, args = s.existsAny, nil
	}
	err = each(ctx, statement, args, func(scan scanFunc) error { return scan(&exists) })
	return exists, err
}

type scanFunc = func(dest ...any) error

// each calls use for every row of a query. The reads of a handler are short,
// so they run to their end: watching a context costs more than they do.
func each(ctx context.Context, statement *sql.Stmt, args []any, use func(scan scanFunc) error) error {
	rows, err := statement.QueryContext(context.WithoutCancel(ctx), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := use(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Commit implements [Store]. A context that ends while the changes still wait
// for their turn withdraws them; once their transaction has begun, Commit
// returns what became of it.
func (s *SQLite) Commit(ctx context.Context, c *book.Changes) error {
	return s.committer.commit(ctx, c)
}

// Last implements [Store].
func (s *SQLite) Last(ctx context.Context) (last uint64, err error) {
	err = s.reads.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM journal`).Scan(&last)
	return last, err
}

// Journal implements [Store].
func (s *SQLite) Journal(ctx context.Context) (n int, err error) {
	err = s.reads.QueryRowContext(ctx, `SELECT count(*) FROM journal`).Scan(&n)
	return n, err
}

// Accounts implements [Store].
func (s *SQLite) Accounts(ctx context.Context) ([]book.Account, error) {
	rows, err := s.reads.QueryContext(ctx, `SELECT account FROM accounts`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []book.Account
	for rows.Next() {
		var a string
		if err := rows.Scan(&a); err != nil {
			return nil, err
		}
		list = append(list, book.Account(a))
	}
	slices.SortFunc(list, book.Account.Compare)
	return list, rows.Err()
}

// Stats implements [Store].
func (s *SQLite) Stats() Stats { return s.committer.stats() }

// Name implements [Store].
func (s *SQLite) Name() string { return "SQLite (WAL, synchronous=FULL)" }

// Close implements [Store].
func (s *SQLite) Close() error { return errors.Join(s.committer.close(), s.reads.Close()) }
