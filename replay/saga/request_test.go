package saga_test

import (
	"context"
	"database/sql"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/saga"
)

// An operator beside the process sees the runs that are parked, and decides about them by
// requests in the store.
func TestRequests(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		var works atomic.Bool
		d := checkout(func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error {
			if !works.Load() {
				return dispatcher.Permanent(errAway)
			}
			return nil
		})
		d.Steps[1].Pivot = true // so that what fails after it is parked
		c := coordinator(t, config(store), saga.Register(d))
		start(t, c, store, "r", order{Product: "p"})
		until(t, c, "r", has(saga.Parked))

		openOperator := sqlite.OpenOperator
		if strings.HasPrefix(where, "postgres") {
			openOperator = postgres.OpenOperator
		}
		var o *sqlstore.Operator
		o, err := openOperator(t.Context(), where)
		require.NoError(t, err)
		defer func() { assert.NoError(t, o.Close()) }()
		runs, ok := saga.ReaderOf(o.DB(), saga.NewReader(o.DB(), "").Consumer())
		require.True(t, ok)
		_, ok = saga.ReaderOf(o.DB(), "default")
		require.False(t, ok)
		source := o.With(runs.Consumer(), runs)
		seen, err := source.View(t.Context(), view.Query{})
		require.NoError(t, err)
		require.Equal(t, []string{"1 runs are parked: an operator must decide"}, seen.Problems)
		target := seen.Tables[0].Rows[0].Target

		ctx, cancel := context.WithTimeout(asAnn, time.Minute)
		defer cancel()
		works.Store(true)
		require.NoError(t, source.Act(ctx, view.Action{Name: view.Resume, Target: target}))
		assert.Equal(t, saga.Completed, ended(t, c, "r").Status)
		require.Error(t, source.Act(ctx, view.Action{Name: view.Drop, Target: target}), "it is over")
		decided, err := runs.Decisions(t.Context(), time.Now().Add(time.Hour), 10)
		require.NoError(t, err)
		require.Len(t, decided, 1)
		assert.Equal(t, []string{"r", "ann", "case 17"}, []string{decided[0].Saga, decided[0].Operator, decided[0].Why})
	})
}
