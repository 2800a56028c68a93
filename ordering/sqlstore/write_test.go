package sqlstore_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// TestAWriteInATerm is refused once the term is over, and without a call of what it is
// to write; that of the next term is not.
func TestAWriteInATerm(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		old := begin(t, store, "old")
		require.NoError(t, store.WriteIn(t.Context(), old, effect("old")))
		heir := begin(t, store, "heir")
		called := false
		err := store.WriteIn(t.Context(), old, func(context.Context, *sql.Tx) error { called = true; return nil })
		var taken *ordering.TakenOverError
		require.ErrorAs(t, err, &taken)
		assert.Equal(t, "heir", taken.Holder)
		assert.False(t, called)
		require.NoError(t, store.WriteIn(t.Context(), heir, effect("heir")))
		require.NoError(t, heir.End(t.Context()))
		require.ErrorIs(t, store.WriteIn(t.Context(), heir, effect("late")), ordering.ErrFenced)
		require.ErrorIs(t, store.WriteIn(t.Context(), begin(t, open(), "other store"), effect("foreign")), ordering.ErrFenced)
		assert.Equal(t, 2, effects(t, store))
	})
}

// TestNothingToWrite: what is not given is named, and not found by its use.
func TestNothingToWrite(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		term := begin(t, store, "holder")
		e := &ordering.Event{ID: "x"}
		for _, err := range []error{
			store.Write(t.Context(), nil),
			store.WriteIn(t.Context(), term, nil),
			store.Do(t.Context(), ordering.NewJob(term, e, nil), nil),
		} {
			require.EqualError(t, err, "sqlstore: apply is nil: give the function that writes")
		}
		for _, inTx := range []func(){
			func() { sqlstore.InTx[int](store, nil) },
			func() { sqlstore.InTx(nil, func(context.Context, *sql.Tx, ordering.Job[int]) error { return nil }) },
		} {
			require.PanicsWithValue(t, "sqlstore: InTx: the store or the handler is nil", inTx)
		}
	})
}

// TestATermBeginsAfterAWriteUnderWay, which nobody sees half done.
func TestATermBeginsAfterAWriteUnderWay(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		old := begin(t, store, "old")
		inside, leave, written := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			written <- store.WriteIn(context.Background(), old, func(ctx context.Context, tx *sql.Tx) error {
				close(inside)
				<-leave
				return effect("under way")(ctx, tx)
			})
		}()
		<-inside
		begun := make(chan int, 1)
		go func() {
			_, err := store.Begin(context.Background(), ordering.Consumer{Holder: "heir"})
			assert.NoError(t, err)
			var n int
			assert.NoError(t, store.DB().QueryRow(`SELECT count(*) FROM effects`).Scan(&n))
			begun <- n
		}()
		close(leave)
		require.NoError(t, <-written)
		assert.Equal(t, 1, <-begun)
	})
}
