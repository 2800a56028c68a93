package sqlstore_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

const insertMine = `INSERT INTO effects (event) VALUES ($1)`

// TestEffectsOfPgx: whatever an effect does with its transaction, it is applied as a
// whole with its number, or not at all, and the error says why.
func TestEffectsOfPgx(t *testing.T) {
	store := closed(t)(postgres.Open(t.Context(), database(t)))
	wrong := errors.New("wrong")
	mine := func(ctx context.Context, tx *postgres.Tx) error {
		_, err := tx.Exec(ctx, insertMine, "mine")
		return err
	}
	var escaped pgx.Tx
	cases := map[string]struct {
		effect func(ctx context.Context, tx *postgres.Tx) error
		rows   int
		err    error // or else, without rows, any
	}{
		"nothing":       {func(context.Context, *postgres.Tx) error { return nil }, 0, nil},
		"an error":      {func(ctx context.Context, tx *postgres.Tx) error { return errors.Join(mine(ctx, tx), wrong) }, 0, wrong},
		"after a query": {func(ctx context.Context, tx *postgres.Tx) error { return errors.Join(read(ctx, tx), mine(ctx, tx)) }, 1, nil},
		"between others": {func(ctx context.Context, tx *postgres.Tx) error {
			tx.Queue(insertMine, "mine")
			return errors.Join(read(ctx, tx), mine(ctx, tx), read(ctx, tx))
		}, 2, nil},
		"seen by a query": {func(ctx context.Context, tx *postgres.Tx) error {
			tx.Queue(insertMine, "seen")
			var n int
			err := tx.QueryRow(ctx, `SELECT count(*) FROM effects WHERE event = $1`, "seen").Scan(&n)
			assert.Equal(t, 1, n)
			return errors.Join(err, mine(ctx, tx))
		}, 1, nil},
		"no rows": {func(ctx context.Context, tx *postgres.Tx) error {
			assert.ErrorIs(t, tx.QueryRow(ctx, `SELECT event FROM effects WHERE event = 'nobody'`).Scan(new(string)), pgx.ErrNoRows)
			return mine(ctx, tx)
		}, 1, nil},
		"a statement that fails, swallowed": {func(ctx context.Context, tx *postgres.Tx) error {
			_ = mine(ctx, tx)
			_, _ = tx.Exec(ctx, `INSERT INTO nowhere VALUES ($1)`, 1)
			return nil
		}, 0, sqlstore.ErrEnded},
		"the first that fails, swallowed": {func(ctx context.Context, tx *postgres.Tx) error {
			_, _ = tx.Exec(ctx, `INSERT INTO nowhere VALUES ($1)`, 1)
			_ = mine(ctx, tx)
			return nil
		}, 0, nil},
		"an argument that is not of the type, with others in front, swallowed": {func(ctx context.Context, tx *postgres.Tx) error {
			tx.Queue(insertMine, "mine")
			_, err := tx.Exec(ctx, insertMine, struct{}{})
			assert.Error(t, err)
			return nil
		}, 0, nil},
		"queued, it fails": {func(_ context.Context, tx *postgres.Tx) error {
			tx.Queue(insertMine, "mine")
			tx.Queue(`INSERT INTO effects (event) VALUES (NULL)`)
			return nil
		}, 0, nil},
		"queued, it is no statement": {func(_ context.Context, tx *postgres.Tx) error {
			tx.Queue(insertMine, "mine")
			tx.Queue(`NONSENSE`)
			return nil
		}, 0, nil},
		"queued, it fails in front of another": {func(ctx context.Context, tx *postgres.Tx) error {
			tx.Queue(`INSERT INTO effects (event) VALUES (NULL)`)
			assert.Error(t, mine(ctx, tx))
			return nil
		}, 0, nil},
		"COMMIT": {func(ctx context.Context, tx *postgres.Tx) error {
			_, err := tx.Exec(ctx, `COMMIT`)
			return errors.Join(mine(ctx, tx), err)
		}, 0, sqlstore.ErrForbidden},
		"COMMIT, swallowed": {func(ctx context.Context, tx *postgres.Tx) error { _, _ = tx.Exec(ctx, `COMMIT`); return mine(ctx, tx) }, 1, nil},
		"COMMIT, queued":    {func(ctx context.Context, tx *postgres.Tx) error { err := mine(ctx, tx); tx.Queue(`COMMIT`); return err }, 0, sqlstore.ErrForbidden},
		"COMMIT, in a batch": {func(ctx context.Context, tx *postgres.Tx) error {
			var b pgx.Batch
			b.Queue(insertMine, "mine")
			b.Queue(`COMMIT`)
			return tx.SendBatch(ctx, &b).Close()
		}, 0, sqlstore.ErrForbidden},
		"COMMIT, not first": {func(ctx context.Context, tx *postgres.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ('mine'); COMMIT`)
			return errors.Join(mine(ctx, tx), err)
		}, 0, sqlstore.ErrForbidden},
		"COMMIT, by the connection": {func(ctx context.Context, tx *postgres.Tx) error {
			_ = read(ctx, tx)
			_, err := tx.Conn().Exec(ctx, `COMMIT`)
			return errors.Join(err, mine(ctx, tx))
		}, 0, sqlstore.ErrEnded},
		"Commit": {func(ctx context.Context, tx *postgres.Tx) error { err := mine(ctx, tx); _ = tx.Commit(ctx); return err }, 0, sqlstore.ErrEnded},
		"Rollback": {func(ctx context.Context, tx *postgres.Tx) error {
			err := mine(ctx, tx)
			_ = tx.Rollback(ctx)
			return err
		}, 0, sqlstore.ErrEnded},
		"a savepoint that is undone": {func(ctx context.Context, tx *postgres.Tx) error {
			tx.Queue(insertMine, "mine")
			err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
				_, err := inner.Exec(ctx, insertMine, "mine")
				return errors.Join(err, wrong)
			})
			assert.ErrorIs(t, err, wrong)
			return pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
				_, err := inner.Exec(ctx, insertMine, "mine")
				return err
			})
		}, 2, nil},
		"COMMIT, in a savepoint": {func(ctx context.Context, tx *postgres.Tx) error {
			return pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
				_, err := inner.Exec(ctx, insertMine, "mine")
				_, ends := inner.Exec(ctx, `COMMIT`)
				return errors.Join(err, ends)
			})
		}, 0, sqlstore.ErrForbidden},
		"COMMIT, in a savepoint in one, swallowed": {func(ctx context.Context, tx *postgres.Tx) error {
			return pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
				return pgx.BeginFunc(ctx, inner, func(inner pgx.Tx) error {
					_, _ = inner.Exec(ctx, `COMMIT`)
					var b pgx.Batch
					b.Queue(`COMMIT`)
					_ = inner.SendBatch(ctx, &b).Close()
					_, err := inner.Exec(ctx, insertMine, "mine")
					return err
				})
			})
		}, 1, nil},
		"a savepoint is kept": {func(ctx context.Context, tx *postgres.Tx) error {
			inner, err := tx.Begin(ctx)
			escaped = inner
			return errors.Join(err, mine(ctx, tx))
		}, 1, nil},
		"a savepoint is used after its end": {func(ctx context.Context, tx *postgres.Tx) error {
			inner, err := tx.Begin(ctx)
			assert.NoError(t, err)
			assert.NoError(t, inner.Commit(ctx))
			_, err = inner.Exec(ctx, insertMine, "mine")
			assert.ErrorIs(t, err, pgx.ErrTxClosed)
			assert.ErrorIs(t, inner.Rollback(ctx), pgx.ErrTxClosed)
			return nil
		}, 0, nil},
		"CopyFrom": {func(ctx context.Context, tx *postgres.Tx) error {
			tx.Queue(insertMine, "mine")
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"event"}, pgx.CopyFromRows([][]any{{"mine"}, {"mine"}}))
			return err
		}, 3, nil},
		"rows left open": {func(ctx context.Context, tx *postgres.Tx) error {
			tx.Queue(insertMine, "mine")
			_, err := tx.Query(ctx, `SELECT generate_series(1, 10000)`)
			return err
		}, 0, nil},
		"a panic":    {func(ctx context.Context, tx *postgres.Tx) error { _ = mine(ctx, tx); panic("oh") }, 0, nil},
		"it is kept": {func(ctx context.Context, tx *postgres.Tx) error { escaped = tx; return mine(ctx, tx) }, 1, nil},
		"large texts": {func(ctx context.Context, tx *postgres.Tx) error {
			tx.Queue(insertMine, string(make([]byte, 0, 1)))
			return mine(ctx, tx)
		}, 1, nil},
	}
	fails := map[string]bool{"the first that fails, swallowed": true, "rows left open": true, "a panic": true, "queued, it fails": true, "queued, it is no statement": true,
		"queued, it fails in front of another": true, "an argument that is not of the type, with others in front, swallowed": true}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before, number := count(t, store, "mine"), last(t, store, "a")+1
			j := job(t, store, "a", number)
			err := postgres.Do(t.Context(), store, j, c.effect)
			switch {
			case c.err != nil:
				require.ErrorIs(t, err, c.err)
			case fails[name]:
				require.Error(t, err)
			default:
				require.NoError(t, err)
			}
			require.NotErrorAs(t, err, new(*ordering.StoreError), "it is the event's fault")
			assert.Equal(t, c.rows, count(t, store, "mine")-before)
			assert.Equal(t, err == nil, j.IsCommitted())
			assert.Equal(t, err == nil, last(t, store, "a") == number)
			if escaped != nil {
				_, err := escaped.Exec(t.Context(), insertMine, "mine")
				require.ErrorIs(t, err, pgx.ErrTxClosed)
				require.Nil(t, escaped.Conn())
				require.ErrorIs(t, escaped.Commit(t.Context()), pgx.ErrTxClosed)
				if tx, ok := escaped.(*postgres.Tx); ok {
					tx.Queue(insertMine, "mine")
				}
				escaped = nil
			}
		})
	}
}

func read(ctx context.Context, tx *postgres.Tx) error {
	rows, err := tx.Query(ctx, `SELECT n FROM generate_series(1, 3) n`)
	if err != nil {
		return err
	}
	_, err = pgx.CollectRows(rows, pgx.RowTo[int])
	return err
}

// TestPgxAndGoexit: the connection is given up, and with it what was written.
func TestPgxAndGoexit(t *testing.T) {
	store := closed(t)(postgres.Open(t.Context(), database(t)+"&pool_max_conns=1"))
	j := job(t, store, "a", 1)
	var wait sync.WaitGroup
	wait.Go(func() {
		_ = postgres.Do(t.Context(), store, j, func(ctx context.Context, tx *postgres.Tx) error {
			_, _ = tx.Exec(ctx, insertMine, "mine")
			runtime.Goexit()
			return nil
		})
	})
	wait.Wait()
	require.NoError(t, postgres.Do(t.Context(), store, j, func(ctx context.Context, tx *postgres.Tx) error {
		_, err := tx.Exec(ctx, insertMine, "mine")
		return err
	}))
	assert.Equal(t, 1, effects(t, store))
}

// TestPgxIsOfPostgres.
func TestPgxIsOfPostgres(t *testing.T) {
	store := closed(t)(sqlite.Open(t.Context(), empty(t)))
	j := job(t, store, "a", 1)
	require.ErrorIs(t, postgres.Do(t.Context(), store, j, func(context.Context, *postgres.Tx) error { return nil }), errors.ErrUnsupported)
	assert.False(t, j.IsCommitted())
}

// TestTogetherWithPgx: a chain whose handlers have transactions of pgx, and one of
// which also reads by that of database/sql.
func TestTogetherWithPgx(t *testing.T) {
	store := closed(t)(postgres.Open(t.Context(), database(t)))
	b := newBank(t, store, func(cfg *ordering.Config[*ordering.Event]) {
		inTx := cfg.Handler
		cfg.Handler = func(ctx context.Context, job ordering.Job[*ordering.Event]) error {
			if job.Event.ID == "busy-1" {
				return inTx(ctx, job)
			}
			return postgres.InTx(store, func(ctx context.Context, tx *postgres.Tx, job ordering.Job[*ordering.Event]) error {
				if job.Event.ID == "hot-4" {
					var balance int
					assert.NoError(t, store.TogetherTx(ctx).QueryRowContext(ctx, `SELECT balance FROM accounts WHERE name = 'hot'`).Scan(&balance))
					assert.Equal(t, 3, balance, "what is queued is sent before")
				}
				name := job.Event.Name()
				tx.Queue(`INSERT INTO accounts (name, balance) VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET balance = accounts.balance + 1`, "hot")
				tx.Queue(`INSERT INTO journal (event, account, balance) SELECT $1, name, balance FROM accounts WHERE name = $2`, name, "hot")
				if job.Event.ID == "hot-2" {
					var balance int
					err := tx.QueryRow(ctx, `SELECT balance FROM accounts WHERE name = $1`, "hot").Scan(&balance)
					assert.Equal(t, 2, balance)
					return err
				}
				return nil
			})(ctx, job)
		}
	})
	b.offer(deposits("hot", 1, 2, 3, 4, 5)...)
	b.gathered(0)
	b.run()
	assert.Equal(t, []string{"hot-1", "hot-2", "hot-3", "hot-4", "hot-5"}, b.journal("hot"))
	assert.Equal(t, ordering.Applied, b.outcome("hot-4").Result)
}

var _ dispatcher.Together = (*sqlstore.Store)(nil).Together
