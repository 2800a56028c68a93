package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// TestMeasure: of each commit it is told how many events share it; what was undone is none.
func TestMeasure(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		var mu sync.Mutex
		var shared []int // events of the commits that have any
		none := 0        // commits without
		store.Measure(func(c view.Commit) {
			mu.Lock()
			defer mu.Unlock()
			assert.Positive(t, c.Took)
			if c.Events == 0 {
				none++
			} else {
				shared = append(shared, c.Events)
			}
		})
		b := newBank(t, store, nil)
		b.offer(deposits("hot", 1, 2, 3, 4, 5)...)
		b.offer(&ordering.Event{ID: "transfer", Positions: []ordering.Position{at("hot", 6)[0], at("other", 1)[0]}})
		b.offer(deposits("other", 2)...)
		b.offer(&ordering.Event{ID: "command", Type: "hot"})
		b.gathered(0)
		b.run()
		assert.Equal(t, []int{1, 7, 1}, shared, "busy-1, the chain, the command")

		before := none
		require.NoError(t, store.Write(t.Context(), func(context.Context, *sql.Tx) error { return nil }))
		assert.Equal(t, before+1, none)
		undone := errors.New("undone")
		require.ErrorIs(t, store.Write(t.Context(), func(context.Context, *sql.Tx) error { return undone }), undone)
		assert.Equal(t, before+1, none)
		store.Measure(nil)
		require.NoError(t, store.Write(t.Context(), func(context.Context, *sql.Tx) error { return nil }))
		assert.Equal(t, before+1, none)
	})
}
