package saga_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/replay/saga"
)

// A database of the first version keeps its runs, with their histories.
func TestADatabaseOfAnOlderVersion(t *testing.T) {
	store := open(t, filepath.Join(t.TempDir(), "saga.db"))
	require.NoError(t, store.Migrate(t.Context(), saga.Component, saga.FirstTables))
	require.NoError(t, store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO saga_runs
			(coordinator, id, seq, definition, def_version, status, ended, parked, failing, version, term, started, changed, deadline, initial, keep, record, state)
			VALUES ('default', '1', 1, 'checkout', 1, 2, 9, 0, 0, 2, 1, 7, 9, 0, '', '[]', '{"status": 2, "steps": []}', '{}')`)
		if err == nil {
			_, err = tx.ExecContext(ctx, `INSERT INTO saga_history (coordinator, id, n, type, at, step, attempt, error, operator, why) VALUES
				('default', '1', 2, 'StepFailed', 9, 'pay', 3, 'no money', 'ann', 'case 17'), ('default', '1', 1, 'SagaStarted', 7, '', 0, '', '', '')`)
		}
		return err
	}))

	c, err := saga.New(t.Context(), config(store), saga.Register(checkout(write("shipped"))))
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()
	run, err := c.Run(t.Context(), "1")
	require.NoError(t, err)
	assert.Equal(t, []saga.Entry{
		{N: 1, Type: saga.SagaStarted, Time: time.UnixMicro(7).UTC()},
		{N: 2, Type: saga.StepFailed, Time: time.UnixMicro(9).UTC(), Step: "pay", Attempt: 3, Error: "no money", Operator: "ann", Why: "case 17"},
	}, run.History)
}
