package saga_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/replay/saga"
)

// TestBarrier: a participant's actions are done once, and not after they were undone.
func TestBarrier(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		require.NoError(t, store.Migrate(t.Context(), "participant", []string{saga.BarrierTable}))
		pass := func(call saga.Call) (first bool, err error) {
			err = store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
				first, err = saga.Barrier(ctx, tx, call)
				return err
			})
			return first, err
		}
		check := func(id string, undo, want bool) {
			t.Helper()
			first, err := pass(saga.Call{Saga: id, Step: "pay", Undo: undo})
			require.NoError(t, err)
			require.Equal(t, want, first)
		}
		t.Log("in order, each twice")
		check("1", false, true)
		check("1", false, false)
		check("1", true, true)
		check("1", true, false)
		check("1", false, false)
		t.Log("the undo first, and the action late")
		check("2", true, false)
		check("2", true, false)
		_, err := pass(saga.Call{Saga: "2", Step: "pay"})
		require.ErrorIs(t, err, saga.ErrUndone)
		require.True(t, dispatcher.IsPermanent(err))
		t.Log("what is rolled back has not passed")
		require.ErrorIs(t, store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := saga.Barrier(ctx, tx, saga.Call{Saga: "3", Step: "pay"})
			require.NoError(t, err)
			return errAway
		}), errAway)
		check("3", false, true)
		t.Log("both at once: if the action is done, so is its undo")
		for i := range 30 {
			var do, undo bool
			var late error
			var both sync.WaitGroup
			call := saga.Call{Saga: fmt.Sprint("both ", i), Step: "pay"}
			both.Go(func() { do, late = pass(call) })
			both.Go(func() {
				back := call
				back.Undo = true
				var err error
				undo, err = pass(back)
				assert.NoError(t, err)
			})
			both.Wait()
			require.Equal(t, do, undo)
			require.Equal(t, !do, late != nil)
		}
	})
}

func TestKeyOfACall(t *testing.T) {
	for _, call := range []saga.Call{
		{Saga: "1", Step: "pay"}, {Saga: "a/b/do", Step: "pay", Undo: true}, {Saga: "a/b/do other", Step: "pay"},
		{Saga: "1", Step: "pay", By: "other"}, {Saga: "1/pay/undo x", Step: "do", Undo: true, By: "do"},
	} {
		parsed, err := saga.ParseCall(call.Key())
		require.NoError(t, err)
		assert.Equal(t, call, parsed)
	}
	assert.Equal(t, "1/pay/undo", saga.Call{Saga: "1", Step: "pay", Undo: true, Attempt: 7}.Key())
	assert.Equal(t, "1/pay/do other", saga.Call{Saga: "1", Step: "pay", By: "other"}.Key())
	for _, wrong := range []string{"", "/", "a/do", "//do", "a/b/c", "a//undo", "/a/do", "a/b/do ", "a/b/done"} {
		_, err := saga.ParseCall(wrong)
		require.Error(t, err, wrong)
	}
}
