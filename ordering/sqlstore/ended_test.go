package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

// TestAnEffectThatEndsItsTransaction is never taken for done: neither does an
// event count whose effect or number was not committed, nor does an effect
// write what has no number.
func TestAnEffectThatEndsItsTransaction(t *testing.T) {
	store := closed(t)(postgres.Open(t.Context(), database(t)))
	type effectFunc = func(ctx context.Context, tx *sql.Tx) error
	wrote := func(statements ...string) effectFunc {
		return func(ctx context.Context, tx *sql.Tx) error {
			err := effect("mine")(ctx, tx)
			for _, statement := range statements {
				_, _ = tx.ExecContext(ctx, statement)
			}
			_, _ = tx.ExecContext(ctx, `INSERT INTO effects VALUES ('mine')`)
			return err
		}
	}
	cases := map[string]struct {
		effect effectFunc
		rows   int
		err    error
	}{
		"COMMIT":               {wrote(`COMMIT`), 2, nil}, // refused, and swallowed
		"COMMIT and a comment": {wrote(`/* /* x */ */ COMMIT/**/`), 2, nil},
		"commit in a comment":  {wrote("-- x\n /* y */ ; commit and chain"), 2, nil},
		"END, ABORT and BEGIN": {wrote(`END`, `abort`, `BEGIN`, `START TRANSACTION`), 2, nil},
		"ROLLBACK":             {wrote(`ROLLBACK WORK`), 2, nil},
		"savepoints":           {wrote(`SAVEPOINT a`, `INSERT INTO effects VALUES ('no')`, `ROLLBACK TO a`, `rollback work to savepoint a`), 2, nil},
		"ROLLBACK, not first":  {wrote(`SELECT 1; ROLLBACK`), 0, sqlstore.ErrEnded},
		"COMMIT, not first":    {wrote(`SELECT 1; COMMIT`), 0, sqlstore.ErrEnded},
		"COMMIT, returned": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO effects VALUES ('mine'); COMMIT`)
			return errors.Join(err, effect("mine")(ctx, tx))
		}, 0, sqlstore.ErrForbidden},
		"semicolons": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO effects VALUES ('no; commit'), ('mine') ; `)
			return err
		}, 1, nil},
		"refused": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `COMMIT`)
			return err
		}, 0, sqlstore.ErrForbidden},
		"settings of the connection": {wrote(`SET search_path TO elsewhere`, `set session lock_timeout = 1`, `SET TIME ZONE 'UTC'`, `RESET ALL`,
			`DISCARD TEMP`, `LISTEN news`, `UNLISTEN *`), 2, nil}, // refused, and swallowed
		"SET, returned": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `/* first */ SET work_mem = '1MB'`)
			return errors.Join(err, effect("mine")(ctx, tx))
		}, 0, sqlstore.ErrForbidden},
		"settings of the transaction": {func(ctx context.Context, tx *sql.Tx) error {
			for _, text := range []string{`SET LOCAL lock_timeout = '1s'`, `SET CONSTRAINTS ALL IMMEDIATE`, `SET TRANSACTION READ WRITE`} {
				if _, err := tx.ExecContext(ctx, text); err != nil {
					return err
				}
			}
			return effect("mine")(ctx, tx)
		}, 1, nil},
		"Commit": {func(ctx context.Context, tx *sql.Tx) error {
			err := effect("mine")(ctx, tx)
			assert.ErrorIs(t, tx.Commit(), sqlstore.ErrEnded)
			return err
		}, 0, sqlstore.ErrEnded},
		"Rollback": {func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(effect("mine")(ctx, tx), tx.Rollback())
		}, 0, sqlstore.ErrEnded},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before, number := count(t, store, "mine"), last(t, store, "a")+1
			j := job(t, store, "a", number)
			err := store.Do(t.Context(), j, c.effect)
			if c.err == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, c.err)
				require.NotErrorAs(t, err, new(*ordering.StoreError), "it is the event's fault")
			}
			assert.Equal(t, c.rows, count(t, store, "mine")-before)
			assert.Equal(t, c.err == nil, j.IsCommitted())
			assert.Equal(t, c.err == nil, last(t, store, "a") == number)
		})
	}
}
