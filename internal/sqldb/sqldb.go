// Package sqldb has the common parts of packages with tables in an SQLite or
// PostgreSQL database. It imports no driver.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// Dialect identifies the database.
type Dialect uint8

// Dialects.
const (
	SQLite     Dialect = iota + 1 // from version 3.35 on
	PostgreSQL                    // from version 12 on
)

// String returns "SQLite" or "PostgreSQL".
func (d Dialect) String() string {
	if d == PostgreSQL {
		return "PostgreSQL"
	}
	return "SQLite"
}

// Text returns the type of a text column that is compared as bytes.
func (d Dialect) Text() string {
	if d == PostgreSQL {
		return `TEXT COLLATE "C"`
	}
	return `TEXT`
}

// ErrSchema is wrapped by the error of [Migrate] for tables that were made by
// a newer program.
var ErrSchema = errors.New("schema of the database")

// ErrComponent is wrapped by the error of [CheckComponent].
var ErrComponent = errors.New("name of a component")

// own lists the components of this module that have tables.
var own = []string{"ordering", "outbox", "eventlog", "eventlog.views", "saga"}

// CheckComponent returns an error for a component name that a caller must not use
// for its own tables: one of this module's, with which they would be confused, and
// one that is not 1 to 64 ASCII letters, digits, "_", "-", "." or "/".
func CheckComponent(name string) error {
	for _, o := range own {
		if strings.EqualFold(name, o) {
			return fmt.Errorf("%w: %q is reserved for tables of the library: choose another one", ErrComponent, name)
		}
	}
	strange := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./", r))
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, strange) {
		return fmt.Errorf("%w: %.80q: it must have 1 to 64 ASCII letters, digits, or any of _ - . /", ErrComponent, name)
	}
	return nil
}

// Migrate migrates the tables of a component: it runs the steps that were not run
// yet, in one transaction, and stores their number. Of two concurrent migrations
// one waits for the other. db must have a free connection. If the database is not of the
// dialect, the error says so.
func Migrate(ctx context.Context, db *sql.DB, d Dialect, component string, steps []string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := transaction(ctx, conn, d, component, steps); err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`) // if it has begun
		if other := otherThan(d); is(ctx, conn, other) {
			return fmt.Errorf("the database is one of %s, and the dialect is that of %s: give the other one", other, d)
		}
		return err
	}
	return nil
}

func otherThan(d Dialect) Dialect {
	if d == SQLite {
		return PostgreSQL
	}
	return SQLite
}

// is reports whether a database has a dialect, as far as it answers.
func is(ctx context.Context, conn *sql.Conn, d Dialect) bool {
	query := `SELECT sqlite_version()`
	if d == PostgreSQL {
		query = `SELECT current_setting('server_version')`
	}
	var version string
	return conn.QueryRowContext(ctx, query).Scan(&version) == nil
}

// CheckVersion returns an error that wraps [ErrSchema] unless the tables of a component
// have a version. It changes nothing.
func CheckVersion(ctx context.Context, db *sql.DB, component string, version int) error {
	var has int
	err := db.QueryRowContext(ctx, `SELECT version FROM schema_versions WHERE component = $1`, component).Scan(&has)
	switch {
	case isMissing(err):
		return fmt.Errorf("%w: there are no tables of %s: %w", ErrSchema, component, err)
	case err != nil:
		return err
	case has > version:
		return fmt.Errorf("%w: that of %s has version %d, this program knows up to %d: use a newer one", ErrSchema, component, has, version)
	case has < version:
		return fmt.Errorf("%w: that of %s has version %d, this program needs %d: let the service migrate it, or use an older program", ErrSchema, component, has, version)
	}
	return nil
}

// isMissing reports whether an error says that a row, the table or a column of it is not
// there, and not that the database is away.
func isMissing(err error) bool {
	var postgres interface{ SQLState() string }
	var sqlite interface{ Code() int }
	switch {
	case errors.As(err, &postgres):
		return postgres.SQLState() == "42P01" || postgres.SQLState() == "42703"
	case errors.As(err, &sqlite):
		return sqlite.Code() == 1 // SQLITE_ERROR
	}
	return errors.Is(err, sql.ErrNoRows)
}

func transaction(ctx context.Context, conn *sql.Conn, d Dialect, component string, steps []string) error {
	begin := `BEGIN IMMEDIATE`
	if d == PostgreSQL {
		// Each statement sees what was committed before it: also by whoever had the lock, which
		// is any number, the same for all.
		begin = `BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(496362878345)`
	}
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		return err
	}
	if err := migrate(ctx, conn, d, component, steps); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, `COMMIT`)
	return err
}

func migrate(ctx context.Context, conn *sql.Conn, d Dialect, component string, steps []string) error {
	_, err := conn.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS schema_versions (component `+d.Text()+` PRIMARY KEY, version BIGINT NOT NULL)`)
	if err != nil {
		return err
	}
	version := 0
	err = conn.QueryRowContext(ctx, `SELECT version FROM schema_versions WHERE component = $1`, component).Scan(&version)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("table schema_versions: %w; if it belongs to another program, use another database", err)
	case version == len(steps):
		return nil
	case version > len(steps):
		return fmt.Errorf("%w: that of %s has version %d, this program knows up to %d: use a newer one", ErrSchema, component, version, len(steps))
	}
	for i, step := range steps[version:] {
		if _, err := conn.ExecContext(ctx, step); err != nil {
			return fmt.Errorf("schema of %s, step %d: %w; if tables of these names belong to another program, use another database",
				component, version+i+1, err)
		}
	}
	_, err = conn.ExecContext(ctx, `INSERT INTO schema_versions (component, version) VALUES ($1, $2)
		ON CONFLICT (component) DO UPDATE SET version = excluded.version`, component, len(steps))
	return err
}
