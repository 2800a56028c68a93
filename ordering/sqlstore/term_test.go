package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

// begin begins a term of the whole consumer.
func begin(t *testing.T, store *sqlstore.Store, holder string) ordering.Term {
	t.Helper()
	term, err := store.Begin(t.Context(), ordering.Consumer{Holder: holder})
	require.NoError(t, err)
	return term
}

// next is a job for the next event of a stream.
func next(t *testing.T, term ordering.Term, stream string) ordering.Job[*ordering.Event] {
	t.Helper()
	key := lockkeys.Must(stream)
	states, err := term.Acquire(t.Context(), []lockkeys.Key{key})
	require.NoError(t, err)
	return ordering.NewJob(term, &ordering.Event{Positions: []ordering.Position{{Stream: key, Number: states[0].Last + 1}}}, []int64{states[0].Fence})
}

// TestAnEffectOfATermThatIsOver is not applied, also on a stream that nobody has
// taken over.
func TestAnEffectOfATermThatIsOver(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		old := begin(t, store, "old")
		j, c := next(t, old, "a"), ordering.NewJob(old, &ordering.Event{ID: "command"}, nil)
		heir := begin(t, store, "heir")
		for _, late := range []ordering.Job[*ordering.Event]{j, c} {
			err := sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, _ ordering.Job[*ordering.Event]) error {
				return effect("late")(ctx, tx)
			})(t.Context(), late)
			var taken *ordering.TakenOverError
			require.ErrorAs(t, err, &taken)
			assert.Equal(t, "heir", taken.Holder)
			assert.False(t, late.IsCommitted())
		}
		require.NoError(t, store.Do(t.Context(), next(t, heir, "a"), effect("right")))
		assert.Equal(t, 1, effects(t, store))
	})
}

// TestCommandsInATransaction: the effect of a command is applied once, and its
// reply is kept with it.
func TestCommandsInATransaction(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		term := begin(t, store, "")
		wrong := errors.New("wrong")
		handle := func(id string, reply []byte, err error) error {
			job := ordering.NewJob(term, &ordering.Event{ID: id}, nil)
			return sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
				job.Reply(reply)
				return errors.Join(effect(id)(ctx, tx), err)
			})(t.Context(), job)
		}
		require.ErrorIs(t, handle("x", []byte("never"), wrong), wrong)
		require.ErrorIs(t, handle("x", bytes.Repeat([]byte{1}, ordering.MaxReply+1), nil), ordering.ErrReply)
		require.NoError(t, handle("x", []byte("answer"), nil))
		require.ErrorIs(t, handle("x", []byte("another"), nil), ordering.ErrDuplicate)
		require.NoError(t, handle("y", nil, nil))
		known, err := term.LookCommands(t.Context(), []string{"x", "y", "z"})
		require.NoError(t, err)
		assert.Equal(t, []byte("answer"), known[0].Reply)
		assert.Nil(t, known[1].Reply)
		assert.Nil(t, known[2])
		assert.Equal(t, 2, effects(t, store))

		j := next(t, term, "a")
		require.NoError(t, sqlstore.InTx(store, func(_ context.Context, _ *sql.Tx, job ordering.Job[*ordering.Event]) error {
			job.Reply([]byte("of numbers"))
			return nil
		})(t.Context(), j))
		states, err := term.Look(t.Context(), j.Event.Positions)
		require.NoError(t, err)
		assert.Equal(t, []byte("of numbers"), states[0].Job.Reply)
	})
}

// TestATermBeginsWhenCommitsUnderWayHaveEnded, and before those that come
// meanwhile: they do not keep it waiting, however many there are.
func TestATermBeginsWhenCommitsUnderWayHaveEnded(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		onPostgres := store.MaxHandlers() > 0
		old := begin(t, store, "old")
		under := next(t, old, "under way")
		var blocker *sql.Tx
		if onPostgres { // where what is under way is the COMMIT, with the numbers
			var err error
			blocker, err = store.DB().Begin()
			require.NoError(t, err)
			_, err = blocker.Exec(`SELECT FROM ordering_streams FOR UPDATE`)
			require.NoError(t, err)
		}
		entered, leave, told := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			told <- store.Do(t.Context(), under, func(ctx context.Context, tx *sql.Tx) error {
				close(entered)
				if !onPostgres {
					<-leave
				}
				return effect("under way")(ctx, tx)
			})
		}()
		<-entered
		locks := func(what string) func() bool {
			return func() bool {
				var n int
				err := store.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
					WHERE d.datname = current_database() AND l.locktype = 'advisory' AND `+what).Scan(&n)
				return err == nil && n > 0
			}
		}
		if onPostgres {
			require.Eventually(t, locks(`l.granted AND l.mode = 'ShareLock'`), waitAtMost, tick)
		}
		begun := make(chan ordering.Term, 1)
		go func() {
			term, err := store.Begin(t.Context(), ordering.Consumer{Holder: "heir"})
			assert.NoError(t, err)
			begun <- term
		}()
		waits := func() bool {
			if store.MaxHandlers() == 0 {
				return store.Waiting() > 0
			}
			return locks(`NOT l.granted`)()
		}
		require.Eventually(t, waits, waitAtMost, tick)
		late := ordering.NewJob(old, &ordering.Event{ID: "late"}, nil)
		refused := make(chan error, 1)
		go func() { refused <- store.Do(t.Context(), late, effect("late")) }()
		select {
		case <-begun:
			require.Fail(t, "it has not waited")
		default:
		}
		close(leave)
		if onPostgres {
			require.NoError(t, blocker.Rollback())
		}
		require.NoError(t, <-told)
		heir := <-begun
		assert.Equal(t, "heir", heir.Info().Holder)
		require.ErrorIs(t, <-refused, ordering.ErrFenced)
		states, err := heir.Acquire(t.Context(), []lockkeys.Key{lockkeys.Must("under way")})
		require.NoError(t, err)
		assert.EqualValues(t, 1, states[0].Last)
		assert.Equal(t, 1, effects(t, store))
	})
}

// TestAnEffectUnderWay when the next term begins does not keep that waiting on
// PostgreSQL, and is refused.
func TestAnEffectUnderWay(t *testing.T) {
	store := closed(t)(postgres.Open(t.Context(), database(t)))
	old := begin(t, store, "old")
	err := store.Do(t.Context(), next(t, old, "a"), func(ctx context.Context, tx *sql.Tx) error {
		begin(t, store, "heir")
		return effect("late")(ctx, tx)
	})
	require.ErrorIs(t, err, ordering.ErrFenced)
	assert.Zero(t, effects(t, store))
}

// TestAFrozenTerm, in the middle of a transaction, does not keep the next one from
// beginning for longer than the server lets a transaction idle.
func TestAFrozenTerm(t *testing.T) {
	url := database(t)
	frozen := closed(t)(postgres.Open(t.Context(), url+"&idle_in_transaction_session_timeout=200ms"))
	j := next(t, begin(t, frozen, "frozen"), "a")
	told := make(chan error, 1)
	asleep, wake := make(chan struct{}), make(chan struct{})
	go func() {
		told <- frozen.Do(t.Context(), j, func(ctx context.Context, tx *sql.Tx) error {
			close(asleep)
			<-wake
			return effect("frozen")(ctx, tx)
		})
	}()
	<-asleep
	store := closed(t)(postgres.Open(t.Context(), url))
	heir := begin(t, store, "heir")
	assert.Equal(t, "frozen", heir.Info().Previous.Holder)
	close(wake)
	require.Error(t, <-told)
	var taken *ordering.TakenOverError
	require.ErrorAs(t, frozen.Do(t.Context(), j, effect("frozen")), &taken)
	assert.Equal(t, "heir", taken.Holder)
	require.NoError(t, store.Do(t.Context(), next(t, heir, "a"), effect("heir")))
	assert.Equal(t, 1, effects(t, store))
}

// TestTheIsolationOfEffects is the database's own to choose: a term that began
// after the first statement of a transaction is not overlooked.
func TestTheIsolationOfEffects(t *testing.T) {
	url := database(t) + "&default_transaction_isolation=repeatable%20read"
	store := closed(t)(postgres.Open(t.Context(), url))
	old := begin(t, store, "old")
	j := next(t, old, "a")
	for i := range 3 {
		require.NoError(t, store.Do(t.Context(), next(t, old, "b"), effect(fmt.Sprint(i))))
	}
	begin(t, store, "heir")
	require.ErrorIs(t, store.Do(t.Context(), j, effect("late")), ordering.ErrFenced)
	assert.Equal(t, 3, effects(t, store))
}
