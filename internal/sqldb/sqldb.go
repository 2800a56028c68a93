// Package sqldb has what packages that keep their tables in an SQLite or
// PostgreSQL database have in common. It imports no driver.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Dialect says which database it is.
type Dialect uint8

// Dialects.
const (
	SQLite     Dialect = iota + 1 // from version 3.35 on
	PostgreSQL                    // from version 12 on
)

// Text is the type of a column of text that is compared as bytes.
func (d Dialect) Text() string {
	if d == PostgreSQL {
		return `TEXT COLLATE "C"`
	}
	return `TEXT`
}

// ErrSchema is wrapped by the error of [Migrate] for tables that were made by
// a newer program.
var ErrSchema = errors.New("schema of the database")

// Migrate brings the tables of a component up to date: it takes the steps that
// were not taken yet, all in one transaction, and notes their number. Of two
// processes that do so at once, one waits for the other. db must have a free
// connection.
func Migrate(ctx context.Context, db *sql.DB, d Dialect, component string, steps []string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := transaction(ctx, conn, d, component, steps); err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`) // if it has begun
		return err
	}
	return nil
}

func transaction(ctx context.Context, conn *sql.Conn, d Dialect, component string, steps []string) error {
	begin := `BEGIN IMMEDIATE`
	if d == PostgreSQL {
		begin = `BEGIN; SELECT pg_advisory_xact_lock(496362878345)` // any number, the same for all
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
		return fmt.Errorf("table schema_versions: %w; if it is not of this program, give it another database", err)
	case version == len(steps):
		return nil
	case version > len(steps):
		return fmt.Errorf("%w: that of %s is of version %d, this program knows up to %d: use a newer one", ErrSchema, component, version, len(steps))
	}
	for i, step := range steps[version:] {
		if _, err := conn.ExecContext(ctx, step); err != nil {
			return fmt.Errorf("schema of %s, step %d: %w; if tables of these names are not of this program, give it another database",
				component, version+i+1, err)
		}
	}
	_, err = conn.ExecContext(ctx, `INSERT INTO schema_versions (component, version) VALUES ($1, $2)
		ON CONFLICT (component) DO UPDATE SET version = excluded.version`, component, len(steps))
	return err
}
