package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

var errRefused = errors.New("the effect is refused")

// TestNoEffectDefeatsItsNeighbours: whatever an effect does with the
// transaction that it shares, those beside it are applied once, and it is
// applied as a whole with its number, or not at all.
func TestNoEffectDefeatsItsNeighbours(t *testing.T) {
	type effectFunc = func(ctx context.Context, tx *sql.Tx) error
	// wrote runs statements after an insertion; their errors are swallowed.
	wrote := func(result error, statements ...string) effectFunc {
		return func(ctx context.Context, tx *sql.Tx) error {
			if err := effect("mine")(ctx, tx); err != nil {
				return err
			}
			for _, statement := range statements {
				_, _ = tx.ExecContext(ctx, statement)
			}
			_, _ = tx.ExecContext(ctx, `INSERT INTO effects VALUES ('mine')`)
			return result
		}
	}
	// refused runs one and gives its error.
	refused := func(statement string) effectFunc {
		return func(ctx context.Context, tx *sql.Tx) error {
			_ = effect("mine")(ctx, tx)
			_, err := tx.ExecContext(ctx, statement)
			return err
		}
	}
	const applied = 2 // rows of one that is
	cases := map[string]struct {
		effect effectFunc
		rows   int
		err    error // nil if there is none
	}{
		"a savepoint left open":              {wrote(nil, `SAVEPOINT one`), applied, nil},
		"a savepoint left open by a failure": {wrote(errRefused, `SAVEPOINT one`), 0, errRefused},
		"savepoints of all kinds of names":   {wrote(errRefused, `SAVEPOINT "ONE"`, `SAVEPOINT [x y]`, `RELEASE "one"`, `SAVEPOINT ''`), 0, errRefused},
		"a savepoint rolled back to":         {wrote(nil, `SAVEPOINT a`, `INSERT INTO effects VALUES ('no')`, `ROLLBACK TO A`), applied, nil},
		"a savepoint that is not its own":    {wrote(errRefused, `RELEASE one`, `ROLLBACK TO interlock_part`), 0, errRefused},
		"the store's savepoint":              {refused(`SAVEPOINT interlock_part`), 0, sqlstore.ErrForbidden},
		"the store's savepoint, quoted":      {refused(`rollback transaction to savepoint "Interlock_PART"`), 0, sqlstore.ErrForbidden},
		"the store's savepoint, released":    {refused(`/* ; */ RELEASE interlock_part`), 0, sqlstore.ErrForbidden},
		"COMMIT":                             {refused(`COMMIT`), 0, sqlstore.ErrForbidden},
		"COMMIT, swallowed":                  {wrote(nil, `COMMIT`, `END TRANSACTION`), applied, nil},
		"COMMIT, and a failure":              {wrote(errRefused, `COMMIT`, `BEGIN IMMEDIATE`), 0, errRefused},
		"ROLLBACK":                           {refused(`ROLLBACK`), 0, sqlstore.ErrForbidden},
		"ROLLBACK among others":              {wrote(errRefused, `SELECT 1; ROLLBACK; BEGIN`), 0, errRefused},
		"BEGIN":                              {refused(`BEGIN`), 0, sqlstore.ErrForbidden},
		"INSERT OR ROLLBACK":                 {refused(`INSERT OR ROLLBACK INTO one VALUES (1)`), 0, nil},
		"INSERT OR ROLLBACK, swallowed":      {wrote(nil, `INSERT OR ROLLBACK INTO one VALUES (1)`), 0, sqlstore.ErrEnded},
		"INSERT OR ROLLBACK, and a failure":  {wrote(errRefused, `INSERT OR ROLLBACK INTO one VALUES (1)`, `BEGIN`), 0, errRefused},
		"a trigger that rolls back":          {wrote(nil, `DELETE FROM one`), 0, sqlstore.ErrEnded},
		"a pragma of the connection":         {refused(`PRAGMA query_only = ON`), 0, sqlstore.ErrForbidden},
		"another database":                   {refused(`ATTACH ':memory:' AS other`), 0, sqlstore.ErrForbidden},
		"a pragma that tells something":      {wrote(nil, `PRAGMA table_info(one)`, `PRAGMA user_version`), applied, nil},
		"a panic with a savepoint":           {func(ctx context.Context, tx *sql.Tx) error { _ = wrote(nil, `SAVEPOINT one`)(ctx, tx); panic("oh") }, 0, nil},
		"Commit": {func(ctx context.Context, tx *sql.Tx) error {
			err := effect("mine")(ctx, tx)
			assert.ErrorIs(t, tx.Commit(), sqlstore.ErrEnded)
			return err
		}, 0, sqlstore.ErrEnded},
		"Rollback": {func(ctx context.Context, tx *sql.Tx) error {
			err := effect("mine")(ctx, tx)
			assert.NoError(t, tx.Rollback())
			assert.Error(t, effect("mine")(ctx, tx))
			return err
		}, 0, sqlstore.ErrEnded},
		"Goexit": {func(ctx context.Context, tx *sql.Tx) error {
			_ = wrote(nil, `SAVEPOINT one`)(ctx, tx)
			exit()
			return nil
		}, 0, nil},
		"rows left open": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.QueryContext(ctx, `SELECT event FROM effects UNION ALL SELECT 'x' UNION ALL SELECT 'y'`)
			return errors.Join(err, wrote(nil)(ctx, tx))
		}, applied, nil},
		"rows left open by a failure": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.QueryContext(ctx, `INSERT INTO effects VALUES ('no'), ('no either') RETURNING event`)
			return errors.Join(err, errRefused)
		}, 0, errRefused},
		"a statement left open": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.PrepareContext(ctx, `INSERT INTO effects VALUES ('no')`)
			return errors.Join(err, wrote(nil)(ctx, tx))
		}, applied, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			store := closed(t)(sqlite.Open(t.Context(), empty(t)))
			require.NoError(t, store.Migrate(t.Context(), "one", []string{`CREATE TABLE one (n INTEGER PRIMARY KEY);
				INSERT INTO one VALUES (1);
				CREATE TRIGGER t BEFORE DELETE ON one BEGIN SELECT RAISE(ROLLBACK, 'no'); END`}))
			errs := groupOf(t, store, effect("a"), effect("b"), c.effect, effect("c"))
			for i, id := range []string{"a", "b", "", "c"} {
				if id != "" {
					require.NoError(t, errs[i], id)
					assert.Equal(t, 1, count(t, store, id), id)
				}
			}
			assert.Equal(t, c.rows, count(t, store, "mine"))
			assert.Equal(t, 3+c.rows, effects(t, store), "and nothing else")
			assert.Equal(t, c.rows > 0, last(t, store, "g2") == 1)
			switch {
			case c.err != nil:
				require.ErrorIs(t, errs[2], c.err)
			case c.rows > 0:
				require.NoError(t, errs[2])
			}
			require.NotErrorAs(t, errs[2], new(*ordering.StoreError), "it is the event's fault")
			for _, err := range groupOf(t, store, effect("d"), effect("e")) {
				require.NoError(t, err)
			}
		})
	}
}

func count(t *testing.T, store *sqlstore.Store, id string) (n int) {
	t.Helper()
	require.NoError(t, store.DB().QueryRow(`SELECT count(*) FROM effects WHERE event = $1`, id).Scan(&n))
	return n
}

// TestManyEffectsThatDefeatTheirGroup: those beside them are applied, and none
// more than twice.
func TestManyEffectsThatDefeatTheirGroup(t *testing.T) {
	store := closed(t)(sqlite.Open(t.Context(), empty(t)))
	require.NoError(t, store.Migrate(t.Context(), "one", []string{`CREATE TABLE one (n INTEGER PRIMARY KEY); INSERT INTO one VALUES (1)`}))
	const n = 60
	calls := make([]int, n)
	effects := make([]func(ctx context.Context, tx *sql.Tx) error, n)
	for i := range effects {
		effects[i] = func(ctx context.Context, tx *sql.Tx) error {
			calls[i]++
			if i%3 == 1 {
				_, _ = tx.ExecContext(ctx, `INSERT OR ROLLBACK INTO one VALUES (1)`)
			}
			return effect(fmt.Sprint(i))(ctx, tx)
		}
	}
	for i, err := range groupOf(t, store, effects...) {
		assert.Equal(t, i%3 == 1, err != nil)
		assert.LessOrEqual(t, calls[i], 2)
		if i%3 != 1 {
			assert.Equal(t, 1, count(t, store, fmt.Sprint(i)))
		}
	}
}

// TestWhatAnEffectKeeps is of no use to it afterwards.
func TestWhatAnEffectKeeps(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		kept := make(chan *sql.Tx, 2)
		for _, result := range []error{nil, errRefused} {
			number := last(t, store, "a") + 1
			err := store.Do(t.Context(), job(t, store, "a", number), func(ctx context.Context, tx *sql.Tx) error {
				kept <- tx
				return result
			})
			require.Equal(t, result, err)
		}
		require.NoError(t, store.Do(t.Context(), job(t, store, "b", 1), func(ctx context.Context, tx *sql.Tx) error {
			for range 2 {
				_, err := (<-kept).ExecContext(ctx, `INSERT INTO effects VALUES ('late')`)
				assert.ErrorIs(t, err, sql.ErrTxDone)
			}
			return effect("b")(ctx, tx)
		}))
		assert.Equal(t, 1, effects(t, store))
	})
}

// TestAStatementOutsideOfItsTransaction writes nothing.
func TestAStatementOutsideOfItsTransaction(t *testing.T) {
	store := closed(t)(sqlite.Open(t.Context(), empty(t)))
	insert, err := store.Prepare(t.Context(), `INSERT INTO effects VALUES ('stray')`)
	require.NoError(t, err)
	_, err = insert.ExecContext(t.Context())
	require.ErrorIs(t, err, sqlstore.ErrForbidden)
	_, err = store.Prepare(t.Context(), `COMMIT`)
	require.ErrorIs(t, err, sqlstore.ErrForbidden)
	assert.Zero(t, effects(t, store))
}

// TestAnEffectThatHangs has its time, and then the others go on: if it waits
// for its context, for another thing, or in a statement.
func TestAnEffectThatHangs(t *testing.T) {
	const endless = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n`
	come := make(chan struct{})
	hangs := map[string]func(ctx context.Context, tx *sql.Tx) error{
		"for its context": func(ctx context.Context, tx *sql.Tx) error { <-ctx.Done(); return ctx.Err() },
		"for something":   func(context.Context, *sql.Tx) error { <-come; return nil },
		"in a statement": func(ctx context.Context, tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, endless).Scan(new(int))
		},
		"in a statement without a context": func(ctx context.Context, tx *sql.Tx) error { return tx.QueryRow(endless).Scan(new(int)) },
		"in a statement that writes": func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO effects `+endless)
			return err
		},
	}
	for name, hang := range hangs {
		t.Run(name, func(t *testing.T) {
			store := closed(t)(sqlite.Open(t.Context(), empty(t)))
			require.Error(t, store.LimitEffects(0))
			require.NoError(t, store.LimitEffects(50*time.Millisecond))
			before, after := job(t, store, "before", 1), job(t, store, "after", 1)
			entered, leave, hung, first := make(chan struct{}), make(chan struct{}), make(chan error, 1), make(chan error, 1)
			enter := sync.OnceFunc(func() { close(entered) })
			go func() {
				first <- store.Do(t.Context(), before, func(ctx context.Context, tx *sql.Tx) error {
					enter()
					<-leave
					return effect("before")(ctx, tx)
				})
			}()
			<-entered
			j := job(t, store, "hangs", 1)
			go func() {
				hung <- store.Do(t.Context(), j, func(ctx context.Context, tx *sql.Tx) error {
					_ = effect("mine")(ctx, tx)
					return hang(ctx, tx)
				})
			}()
			require.Eventually(t, func() bool { return store.Waiting() == 1 }, waitAtMost, tick)
			close(leave)
			require.NoError(t, <-first, "who shares its transaction")
			require.NoError(t, store.Do(t.Context(), after, effect("after")))
			if name == "for something" {
				assert.Empty(t, hung, "its lock keys are not free before it has returned")
				close(come)
			}
			require.ErrorIs(t, <-hung, sqlstore.ErrTooLong)
			assert.Equal(t, 2, effects(t, store))
		})
	}
}

// TestTheTimeOfAnAttempt bounds an effect from when it begins: waiting for the
// writer, or for a connection, is no part of it, so effects that hang do not use
// up the others' attempts.
func TestTheTimeOfAnAttempt(t *testing.T) {
	test := func(t *testing.T, store *sqlstore.Store, timeout time.Duration) {
		sequencer, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{Store: store,
			Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
				if job.Event.Type == "slow" {
					<-ctx.Done()
					return ctx.Err()
				}
				return effect(job.Event.Name())(ctx, tx)
			}),
			Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{Timeout: timeout, MaxAttempts: 2}})
		require.NoError(t, err)
		defer sequencer.Close()
		const slow, quick = 3, 20
		for i := range slow + quick {
			e := &ordering.Event{Type: "quick", Positions: at(fmt.Sprint("s", i), 1)}
			if i < slow {
				e.Type = "slow"
			}
			require.NoError(t, sequencer.Offer(t.Context(), e, nil))
		}
		require.NoError(t, sequencer.Drain(t.Context()))
		require.NoError(t, sequencer.Err())
		parked, err := sequencer.Parked(t.Context())
		require.NoError(t, err)
		assert.Len(t, parked, slow, "and no other")
		for _, p := range parked {
			assert.Contains(t, p.Error, dispatcher.ErrTimeout.Error())
		}
		assert.Equal(t, quick, effects(t, store))
	}
	t.Run("SQLite", func(t *testing.T) {
		test(t, closed(t)(sqlite.Open(t.Context(), empty(t))), 100*time.Millisecond)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		test(t, closed(t)(postgres.Open(t.Context(), database(t)+"&pool_max_conns=1")), 500*time.Millisecond)
	})
}
