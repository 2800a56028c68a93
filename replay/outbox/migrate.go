package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/ordering"
)

// Dialect says which database it is.
type Dialect uint8

// Dialects.
const (
	// SQLite, from version 3.35 on.
	SQLite Dialect = iota + 1
	// PostgreSQL, from version 12 on.
	PostgreSQL
)

// types are the column types that differ: of text that is compared as bytes,
// and of an ID that numbers itself.
func (d Dialect) types() (text, id string) {
	if d == SQLite {
		return `TEXT`, `INTEGER PRIMARY KEY`
	}
	return `TEXT COLLATE "C"`, `BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY`
}

// migrate makes the tables in one transaction. Of two processes that do so at
// once, one waits for the other.
func migrate(ctx context.Context, db *sql.DB, dialect Dialect) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	begin := `BEGIN; SELECT pg_advisory_xact_lock(496362878344)` // any number, the same for all
	if dialect == SQLite {
		begin = `BEGIN IMMEDIATE`
	}
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		return err
	}
	if err := migrateIn(ctx, conn, dialect); err != nil {
		_, rollback := conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
		return errors.Join(err, rollback)
	}
	_, err = conn.ExecContext(ctx, `COMMIT`)
	return err
}

func migrateIn(ctx context.Context, conn *sql.Conn, dialect Dialect) error {
	text, id := dialect.types()
	if _, err := conn.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS outbox_schema (version BIGINT NOT NULL)`); err != nil {
		return err
	}
	var version int
	if err := conn.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM outbox_schema`).Scan(&version); err != nil {
		return err
	}
	switch {
	case version == schemaVersion:
		return nil
	case version > schemaVersion:
		return fmt.Errorf("%w is of version %d, this program knows up to %d: use a newer one", ordering.ErrSchema, version, schemaVersion)
	}
	for _, table := range tables {
		if _, err := conn.ExecContext(ctx, fmt.Sprintf(table+"%.0[1]s%.0[2]s", text, id)); err != nil {
			return err
		}
	}
	_, err := conn.ExecContext(ctx, `INSERT INTO outbox_schema (version) VALUES ($1)`, schemaVersion)
	return err
}

const schemaVersion = 1
