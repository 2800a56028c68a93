package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

// ways are those to write an effect: by a transaction of each kind, by what is queued,
// and in a chain.
var ways = map[string]func(ctx context.Context, store *sqlstore.Store, job ordering.Job[*ordering.Event], written func()) error{
	"sql.Tx": func(ctx context.Context, store *sqlstore.Store, job ordering.Job[*ordering.Event], written func()) error {
		return store.Do(ctx, job, func(ctx context.Context, tx *sql.Tx) error {
			defer written()
			return effect(job.Event.ID)(ctx, tx)
		})
	},
	"pgx.Tx": func(ctx context.Context, store *sqlstore.Store, job ordering.Job[*ordering.Event], written func()) error {
		return postgres.Do(ctx, store, job, func(ctx context.Context, tx *postgres.Tx) error {
			defer written()
			_, err := tx.Exec(ctx, `INSERT INTO effects (event) VALUES ($1)`, job.Event.ID)
			return err
		})
	},
	"queued": queued,
	"chain": func(ctx context.Context, store *sqlstore.Store, job ordering.Job[*ordering.Event], written func()) error {
		return store.Together(ctx, func(ctx context.Context) error { return queued(ctx, store, job, written) })
	},
}

func queued(ctx context.Context, store *sqlstore.Store, job ordering.Job[*ordering.Event], written func()) error {
	return postgres.Do(ctx, store, job, func(_ context.Context, tx *postgres.Tx) error {
		tx.Queue(`INSERT INTO effects (event) VALUES ($1)`, job.Event.ID)
		written()
		return nil
	})
}

// TestTheConnectionIsLostInACommit, in front of each of its messages: what Look says
// then holds for good, whether what was sent is lost, arrives before Look, meanwhile or
// after it, and the effect is applied once in the end.
func TestTheConnectionIsLostInACommit(t *testing.T) {
	arrivals := map[string]func(arrive func(), look func()){
		"lost":      func(_ func(), look func()) { look() },
		"before":    func(arrive func(), look func()) { arrive(); look() },
		"meanwhile": func(arrive func(), look func()) { go arrive(); look() },
		"after":     func(arrive func(), look func()) { look(); arrive() },
	}
	for way, do := range ways {
		for when, order := range arrivals {
			t.Run(way+" "+when, func(t *testing.T) {
				store, link := linked(t)
				done, undone := 0, 0
				for n, whole := uint64(1), false; !whole; n++ {
					j := job(t, store, "a", n)
					arrive := func() {}
					told := do(t.Context(), store, j, func() { arrive = link.DelayAfter(int(n - 1)) })
					if whole = link.Disarm(); whole {
						require.NoError(t, told)
					} else {
						require.ErrorAs(t, told, new(*ordering.StoreError))
					}
					var known ordering.NumberState
					order(arrive, func() {
						states, err := in(t, store).Look(t.Context(), j.Event.Positions)
						require.NoError(t, err)
						known = states[0]
					})
					require.True(t, known.Done || !whole)
					if known.Done {
						require.True(t, known.Job.IsOf(j.Event))
						done++
					} else {
						require.Zero(t, count(t, store, j.Event.ID))
						require.NoError(t, do(t.Context(), store, job(t, store, "a", n), func() {}))
						undone++
					}
					require.Equal(t, 1, count(t, store, j.Event.ID))
					require.Equal(t, n, last(t, store, "a"))
					arrive()
				}
				assert.Positive(t, done)
				assert.Positive(t, undone)
			})
		}
	}
}

// TestACommandInDoubt: LookCommands says of a command what Look says of an event.
func TestACommandInDoubt(t *testing.T) {
	store, link := linked(t)
	for n, whole := 0, false; !whole; n++ {
		e := &ordering.Event{ID: fmt.Sprint("command-", n)}
		j := ordering.NewJob(in(t, store), e, nil)
		arrive := func() {}
		told := queued(t.Context(), store, j, func() { arrive = link.DelayAfter(n) })
		whole = link.Disarm()
		require.Equal(t, whole, told == nil)
		states, err := in(t, store).LookCommands(t.Context(), []string{e.ID})
		require.NoError(t, err)
		arrive()
		if states[0] == nil {
			require.NoError(t, queued(t.Context(), store, j, func() {}))
		}
		require.Equal(t, 1, count(t, store, e.ID))
		require.ErrorIs(t, queued(t.Context(), store, j, func() {}), ordering.ErrDuplicate)
	}
}

// TestWhoMayNotEndSessions waits for the server to notice that a connection is lost.
func TestWhoMayNotEndSessions(t *testing.T) {
	s, err := server()
	require.NoError(t, err)
	link, url := s.Link(t, s.Database(t))
	store := closed(t)(postgres.Open(t.Context(), url))
	// A function of this name in front of the server's own stands for a right that the
	// user has not.
	require.NoError(t, store.Migrate(t.Context(), "rights", []string{`CREATE SCHEMA rights;
		CREATE FUNCTION rights.pg_terminate_backend(INT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$ BEGIN RAISE insufficient_privilege; END $$`}))
	limited := closed(t)(postgres.Open(t.Context(), url+"&search_path=rights,pg_catalog,public"))
	require.NoError(t, queued(t.Context(), limited, job(t, limited, "a", 1), func() {})) // prepares statements
	j := job(t, limited, "a", 2)
	arrive := func() {}
	require.Error(t, queued(t.Context(), limited, j, func() { arrive = link.DelayAfter(0) }))
	known := make(chan ordering.NumberState, 1)
	go func() {
		states, err := in(t, limited).Look(t.Context(), j.Event.Positions)
		assert.NoError(t, err)
		known <- states[0]
	}()
	require.Eventually(t, func() bool {
		var waiting int
		err := store.DB().QueryRow(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`).Scan(&waiting)
		return err == nil && waiting > 0
	}, waitAtMost, tick)
	arrive()
	require.Equal(t, (<-known).Done, count(t, limited, j.Event.ID) == 1)
}

// TestANumberThatIsNotTheNext undoes the effect, whether that was sent before it or
// with it.
func TestANumberThatIsNotTheNext(t *testing.T) {
	store := closed(t)(postgres.Open(t.Context(), database(t)))
	for name, do := range ways {
		t.Run(name, func(t *testing.T) {
			stream := strings.ReplaceAll(name, ".", "")
			first := job(t, store, stream, 1)
			require.NoError(t, do(t.Context(), store, first, func() {}))
			require.ErrorIs(t, do(t.Context(), store, first, func() {}), ordering.ErrDuplicate)

			stale := job(t, store, stream, 2)
			_ = last(t, store, stream) // a newer token
			require.ErrorIs(t, do(t.Context(), store, stale, func() {}), ordering.ErrFenced)

			require.Equal(t, 1, count(t, store, first.Event.ID))
			require.Zero(t, count(t, store, stale.Event.ID))
			require.EqualValues(t, 1, last(t, store, stream))
		})
	}
}

// stuck makes COMMITs of effects wait, when the numbers are written, until the function
// returned is called. underWay waits until that many transactions wait.
func stuck(t *testing.T, store *sqlstore.Store) (release func(), underWay func(n int)) {
	t.Helper()
	require.NoError(t, store.Migrate(t.Context(), "stuck", []string{`
		CREATE FUNCTION stuck() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1, 1); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER stuck AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stuck()`}))
	tx, err := store.DB().Begin()
	require.NoError(t, err)
	_, err = tx.Exec(`SELECT pg_advisory_xact_lock(1, 1)`)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	underWay = func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			var waiting int
			err := store.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
			return err == nil && waiting == n
		}, waitAtMost, tick)
	}
	return func() { require.NoError(t, tx.Rollback()) }, underWay
}

// TestLookWaitsForACommitUnderWay.
func TestLookWaitsForACommitUnderWay(t *testing.T) {
	store := closed(t)(postgres.Open(t.Context(), database(t)))
	release, underWay := stuck(t, store)
	term, j := in(t, store), job(t, store, "a", 1)
	command := ordering.NewJob(term, &ordering.Event{ID: "x"}, nil)
	told := make(chan error, 2)
	go func() { told <- store.Do(t.Context(), j, effect("a-1")) }()
	go func() { told <- store.Do(t.Context(), command, effect("x")) }()
	underWay(2)
	others, err := term.LookCommands(t.Context(), []string{"y"})
	require.NoError(t, err)
	assert.Nil(t, others[0], "that one is not under way")
	numbers, commands := make(chan []ordering.NumberState, 1), make(chan []*ordering.JobState, 1)
	go func() {
		states, err := term.Look(t.Context(), j.Event.Positions)
		assert.NoError(t, err)
		numbers <- states
	}()
	go func() {
		states, err := term.LookCommands(t.Context(), []string{"y", "x"})
		assert.NoError(t, err)
		commands <- states
	}()
	underWay(4)
	release()
	require.NoError(t, <-told)
	require.NoError(t, <-told)
	states := <-numbers
	assert.True(t, states[0].Done)
	assert.True(t, states[0].Job.IsOf(j.Event))
	known := <-commands
	assert.Nil(t, known[0])
	assert.NotNil(t, known[1])
	require.NoError(t, term.Commit(t.Context(), ordering.NewJob(term, &ordering.Event{ID: "y"}, nil).Record()), "nothing was left of it")
}
