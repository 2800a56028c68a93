package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	driver "modernc.org/sqlite"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// TestWorkersShareTransactions: what comes while another one writes is
// committed in the same transaction.
func TestWorkersShareTransactions(t *testing.T) {
	store := closed(t)(sqlite.Open(t.Context(), empty(t)))
	const workers = 16
	var wait sync.WaitGroup
	entered, leave := make(chan struct{}), make(chan struct{})
	first := job(t, store, "first", 1)
	wait.Go(func() {
		assert.NoError(t, store.Do(t.Context(), first, func(context.Context, *sql.Tx) error {
			close(entered)
			<-leave
			return nil
		}))
	})
	<-entered
	before := store.Commits()
	for i := range workers {
		stream := fmt.Sprintf("s%d", i)
		j := job(t, store, stream, 1)
		wait.Go(func() { assert.NoError(t, store.Do(t.Context(), j, effect(stream))) })
	}
	require.Eventually(t, func() bool { return store.Waiting() == workers }, waitAtMost, tick)
	close(leave)
	wait.Wait()
	assert.EqualValues(t, 1, store.Commits()-before)
	assert.Equal(t, workers, effects(t, store))
}

func TestAFailedEffectDoesNotUndoItsNeighbours(t *testing.T) {
	store := closed(t)(sqlite.Open(t.Context(), empty(t)))
	var wait sync.WaitGroup
	broken := errors.New("broken")
	for i := range 50 {
		stream := fmt.Sprintf("s%d", i)
		j := job(t, store, stream, 1)
		wait.Go(func() {
			err := store.Do(t.Context(), j, func(ctx context.Context, tx *sql.Tx) error {
				if err := effect(stream)(ctx, tx); err != nil || i%3 != 0 {
					return err
				}
				return broken
			})
			assert.Equal(t, i%3 == 0, errors.Is(err, broken))
		})
	}
	wait.Wait()
	assert.Equal(t, 33, effects(t, store))
}

// groupOf runs effects, each of an event of its own stream, in one transaction,
// and returns what Do returned.
func groupOf(t *testing.T, store *sqlstore.Store, effects ...func(ctx context.Context, tx *sql.Tx) error) []error {
	t.Helper()
	var wait sync.WaitGroup
	entered, leave := make(chan struct{}), make(chan struct{})
	enter := sync.OnceFunc(func() { close(entered) })
	errs := make([]error, len(effects))
	for i, effect := range effects {
		j := job(t, store, fmt.Sprint("g", i), last(t, store, fmt.Sprint("g", i))+1)
		wait.Go(func() {
			errs[i] = store.Do(t.Context(), j, func(ctx context.Context, tx *sql.Tx) error {
				if i == 0 {
					enter() // it may come again
					<-leave
				}
				return effect(ctx, tx)
			})
		})
		if i == 0 {
			<-entered
		}
	}
	require.Eventually(t, func() bool { return store.Waiting() == len(effects)-1 }, waitAtMost, tick)
	close(leave)
	wait.Wait()
	return errs
}

// TestAGroupIsDividedAfterAFailure: an effect that fails behind others is called again, and
// so are those before it in its group, but only the first time. It is the same for one that
// uses a savepoint.
func TestAGroupIsDividedAfterAFailure(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		last  func(ctx context.Context, tx *sql.Tx) error
		err   error
		calls [2]int // of the first effect, and of the last, in the first group
	}{
		"a failure": {func(context.Context, *sql.Tx) error { return broken }, broken, [2]int{2, 2}},
		"a savepoint": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `SAVEPOINT mine`)
			return err
		}, nil, [2]int{2, 2}},
		"a savepoint, and what it says is ignored": {func(ctx context.Context, tx *sql.Tx) error {
			_, _ = tx.ExecContext(ctx, `SAVEPOINT mine`)
			return nil
		}, nil, [2]int{2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			store := closed(t)(sqlite.Open(t.Context(), empty(t)))
			for group, want := range [][2]int{c.calls, {1, 1}} {
				var calls [2]int
				errs := groupOf(t, store, func(ctx context.Context, tx *sql.Tx) error {
					calls[0]++
					return effect("first")(ctx, tx)
				}, func(ctx context.Context, tx *sql.Tx) error {
					calls[1]++
					if err := effect("last")(ctx, tx); err != nil {
						return err
					}
					return c.last(ctx, tx)
				})
				require.NoError(t, errs[0])
				require.ErrorIs(t, errs[1], c.err)
				require.Equal(t, want, calls, "group %d", group)
			}
			if c.err == nil {
				require.Equal(t, 4, effects(t, store))
			} else {
				require.Equal(t, 2, effects(t, store))
			}
		})
	}
}

// TestAPreparedSavepoint: a savepoint that an effect leaves open ends with it, also if
// the statement was compiled before, or while parts were divided for another reason.
func TestAPreparedSavepoint(t *testing.T) {
	store := closed(t)(sqlite.Open(t.Context(), empty(t)))
	mine, err := store.Prepare(t.Context(), `SAVEPOINT mine`)
	require.NoError(t, err)
	back, err := store.Prepare(t.Context(), `ROLLBACK TO mine`)
	require.NoError(t, err)
	errs := groupOf(t, store, effect("first"), func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.StmtContext(ctx, mine).ExecContext(ctx); err != nil {
			return err
		}
		return effect("second")(ctx, tx)
	})
	require.Equal(t, []error{nil, nil}, errs)
	errs = groupOf(t, store, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.StmtContext(ctx, mine).ExecContext(ctx)
		return err
	}, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.StmtContext(ctx, back).ExecContext(ctx)
		return err
	})
	require.NoError(t, errs[0])
	require.ErrorContains(t, errs[1], "no such savepoint")
	require.Equal(t, 2, effects(t, store))
	require.EqualValues(t, 2, last(t, store, "g0"))
	require.EqualValues(t, 1, last(t, store, "g1"))
}

// checked opens an SQLite database that checks foreign keys, with tables of which
// one refers to the other, which is checked at the commit.
func checked(t *testing.T) *sqlstore.Store {
	source := "file:" + filepath.Join(t.TempDir(), "positions.db") + "?" + url.Values{"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "foreign_keys(ON)"}}.Encode()
	writes, err := driver.NewConnector(source)
	require.NoError(t, err)
	store := closed(t)(sqlstore.NewSQLite(t.Context(), sqlstore.SQLite{Writes: writes, Guard: sqlite.Guard,
		Own: sql.OpenDB(writes), Reads: sql.OpenDB(writes)}))
	require.NoError(t, store.Migrate(t.Context(), "child", []string{
		`CREATE TABLE parent (id INT PRIMARY KEY); CREATE TABLE child (parent INT REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`}))
	return store
}

// TestACommitThatFails fails for the event that it is for, and no other.
func TestACommitThatFails(t *testing.T) {
	store := checked(t)
	orphan := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO child VALUES (7)`)
		return err
	}
	errs := groupOf(t, store, effect("a"), orphan, effect("b"))
	require.NoError(t, errs[0])
	require.ErrorContains(t, errs[1], "FOREIGN KEY")
	require.NotErrorAs(t, errs[1], new(*ordering.StoreError), "it is the event's fault")
	require.NoError(t, errs[2])
	assert.Equal(t, 2, effects(t, store))
	assert.Zero(t, last(t, store, "g1"))
}

// TestAnEffectThatEndsItsGoroutine or panics fails alone.
func TestAnEffectThatEndsItsGoroutine(t *testing.T) {
	store := closed(t)(sqlite.Open(t.Context(), empty(t)))
	errs := groupOf(t, store, effect("a"),
		func(ctx context.Context, tx *sql.Tx) error {
			_ = effect("exit")(ctx, tx)
			exit()
			return nil
		},
		effect("b"),
		func(ctx context.Context, tx *sql.Tx) error {
			_ = effect("panic")(ctx, tx)
			panic("oh")
		},
		effect("c"))
	require.NoError(t, errs[1], "Do has not returned")
	require.ErrorContains(t, errs[3], "oh")
	for _, i := range []int{0, 2, 4} {
		require.NoError(t, errs[i])
	}
	assert.Equal(t, 3, effects(t, store))
	assert.Zero(t, last(t, store, "g1"))
}

// TestCallersThatGiveUp leave the others their turns.
func TestCallersThatGiveUp(t *testing.T) {
	store := closed(t)(sqlite.Open(t.Context(), empty(t)))
	const callers, each = 12, 25
	var wait sync.WaitGroup
	var done atomic.Int64
	for i := range callers {
		stream := fmt.Sprint("s", i)
		first := job(t, store, stream, 1)
		wait.Go(func() {
			for n := uint64(1); n <= each; n++ {
				e := &ordering.Event{ID: fmt.Sprint(stream, "-", n), Positions: []ordering.Position{first.Event.Positions[0]}}
				e.Positions[0].Number = n
				for {
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(2*time.Millisecond))
					err := store.Do(ctx, ordering.NewJob(in(t, store), e, first.Record().Fences), effect(e.ID))
					cancel()
					if err == nil {
						done.Add(1)
						break
					}
					if !assert.ErrorIs(t, err, context.DeadlineExceeded) {
						return
					}
				}
			}
		})
	}
	wait.Wait()
	assert.EqualValues(t, callers*each, done.Load())
	assert.Equal(t, callers*each, effects(t, store))
	assert.Zero(t, store.Waiting())
}

// TestAFailureBehindMany: it undoes more effects than are divided afterwards, and is called
// again behind them: once, by itself.
func TestAFailureBehindMany(t *testing.T) {
	store := closed(t)(sqlite.Open(t.Context(), empty(t)))
	broken := errors.New("broken")
	calls := 0
	list := make([]func(ctx context.Context, tx *sql.Tx) error, 300)
	for i := range list {
		list[i] = effect("mine")
	}
	list = append(list, func(ctx context.Context, tx *sql.Tx) error {
		calls++
		return errors.Join(effect("broken")(ctx, tx), broken)
	})
	errs := groupOf(t, store, list...)
	for _, err := range errs[:300] {
		require.NoError(t, err)
	}
	require.ErrorIs(t, errs[300], broken)
	assert.Equal(t, 2, calls)
	assert.Equal(t, 300, effects(t, store))
}

// TestNothingIsToldBeforeTheCommit: a write finds what another one has written, in the
// transaction that both share on SQLite, and returns an error for that. Whoever is told that
// something is there already may rely on it: so it is told when that is durable.
func TestNothingIsToldBeforeTheCommit(t *testing.T) {
	store := closed(t)(sqlite.Open(t.Context(), empty(t)))
	there := errors.New("it is there already")
	write := func(waiting int, apply func(ctx context.Context, tx *sql.Tx) error) (result chan error) {
		result = make(chan error, 1)
		go func() { result <- store.Write(context.WithoutCancel(t.Context()), apply) }()
		if waiting > 0 { // so that the order is known
			require.Eventually(t, func() bool { return store.Waiting() == waiting }, waitAtMost, tick)
		}
		return result
	}
	once := func(ctx context.Context, tx *sql.Tx) error {
		var n int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM effects WHERE event = 'once'`).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			return there
		}
		return effect("once")(ctx, tx)
	}
	// hold keeps the transaction open once it is its turn.
	hold := func() (apply func(context.Context, *sql.Tx) error, entered, leave chan struct{}) {
		entered, leave = make(chan struct{}), make(chan struct{})
		enter := sync.OnceFunc(func() { close(entered) }) // it may come again
		return func(context.Context, *sql.Tx) error { enter(); <-leave; return nil }, entered, leave
	}
	begin, begun, gather := hold()
	end, last, commit := hold()
	holding := write(0, begin)
	<-begun
	first, second, ending := write(1, once), write(2, once), write(3, end)
	close(gather)
	<-last
	assert.Empty(t, first)
	assert.Empty(t, second, "it is not durable yet that it is there")
	close(commit)
	require.NoError(t, <-holding)
	require.NoError(t, <-first)
	require.ErrorIs(t, <-second, there)
	require.NoError(t, <-ending)
	assert.Equal(t, 1, count(t, store, "once"))
}
