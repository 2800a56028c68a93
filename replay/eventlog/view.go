package eventlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/internal/sqldb"
)

// Views keeps which version of each read model is the one to be read, in the database
// that has the read models. So a new version is built beside the old one, by a
// subscription of another name into other tables, and taken into use in one step:
//
//	next, err := eventlog.Subscribe(ctx, log, eventlog.SubscriptionConfig{Name: "summary/2", …})
//	err = next.CatchUp(ctx) // see Progress meanwhile
//	err = store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
//		return views.Switch(ctx, tx, "summary", "2")
//	})
//
// Make it with [NewViews]. Its methods are safe for concurrent use.
type Views struct{ db *sql.DB }

// NewViews returns the views of a database, and creates their table if necessary. The
// error wraps [ErrConfig], or [ErrSchema].
func NewViews(ctx context.Context, db *sql.DB, dialect Dialect) (*Views, error) {
	var p settings.Problems
	p.Add(db == nil, "the database is nil: open one")
	p.Add(dialect != SQLite && dialect != PostgreSQL, "the dialect is unknown: use SQLite or PostgreSQL")
	if err := p.Err(ErrConfig); err != nil {
		return nil, err
	}
	err := sqldb.Migrate(ctx, db, dialect, "eventlog.views", []string{
		`CREATE TABLE eventlog_views (name ` + dialect.Text() + ` PRIMARY KEY, version TEXT NOT NULL, since BIGINT NOT NULL)`,
	})
	if err != nil {
		return nil, fmt.Errorf("eventlog: views: %w", err)
	}
	return &Views{db: db}, nil
}

// Current returns the version of a read model that is to be read; "" if there was no
// Switch yet.
func (v *Views) Current(ctx context.Context, name string) (version string, err error) {
	err = v.db.QueryRowContext(ctx, `SELECT version FROM eventlog_views WHERE name = $1`, name).Scan(&version)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("eventlog: current version of view %.80q: %w", name, err)
	}
	return version, nil
}

// Switch makes a version of a read model the one to be read, with the caller's
// transaction.
func (v *Views) Switch(ctx context.Context, tx *sql.Tx, name, version string) error {
	if name == "" || version == "" {
		return fmt.Errorf("%w: Switch needs a name and a version: %q, %q", ErrConfig, name, version)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO eventlog_views (name, version, since) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET version = excluded.version, since = excluded.since`, name, version, now())
	if err != nil {
		return fmt.Errorf("eventlog: switch view %.80q: %w", name, err)
	}
	return nil
}
