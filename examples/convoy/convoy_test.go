package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/convoy/internal/conductor"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// Under load a processor is killed, and of three workers one is killed and two
// leave in good order, while others join. Every order was applied first in,
// first out, completely and once.
//
// After that the same is looked at again with faults in the records, each of
// which must be found.
func TestConvoy(t *testing.T) {
	t.Parallel()
	o := newOptions(t, "-orders", "200", "-length", "15", "-latency", "1ms")
	store := o.openFor(t)
	var stderr bytes.Buffer
	c := conductor.New(o.convoy(), store.DB(), &stderr)
	require.NoError(t, c.Perform(t.Context()), "%s", &stderr)

	r, err := c.Look(t.Context(), store)
	require.NoError(t, err)
	var summary bytes.Buffer
	r.Write(&summary)
	require.NoError(t, r.Failure(), "%s\n%s", &summary, &stderr)
	for how, times := range map[string]int{"killed": 2, "stopped": 2, "stayed": 4} {
		assert.Equal(t, times, strings.Count(summary.String(), how), how)
	}
	assert.Contains(t, summary.String(), "give the streams their first 2 segments in common")
	assert.Contains(t, summary.String(), "stream has ended")
	for queue := range o.Queues {
		assert.Greater(t, len(ownersOf(t, store, queue)), 1, "queue %d was handed over", queue)
	}
	require.ErrorContains(t, c.Perform(t.Context()), "give an empty database")

	stream := c.Script.Late.String()
	for name, damage := range map[string]string{
		"lost":         `DELETE FROM convoy_runs WHERE stream = $1 AND number = (SELECT max(number) FROM convoy_runs WHERE stream = $1)`,
		"all lost":     `DELETE FROM convoy_runs WHERE stream = $1`,
		"twice":        `INSERT INTO convoy_runs (event, stream, number, term, began, ended) SELECT event, stream, number, term, ended, ended FROM convoy_runs WHERE stream = $1 ORDER BY entry DESC LIMIT 1`,
		"too early":    `UPDATE convoy_runs SET began = 0 WHERE stream = $1`,
		"out of order": `UPDATE convoy_runs SET number = 3 - number WHERE stream = $1 AND number < 3`,
		"never sent":   `INSERT INTO convoy_runs (event, stream, number, term, began, ended) VALUES ('x', 'not ' || $1, 1, 1, 0, 0)`,
		"other amount": `UPDATE convoy_lines SET amount = amount + 1 WHERE stream >= '' OR stream = $1`,
		"not closed":   `UPDATE convoy_orders SET closed = false WHERE stream = $1`,
		"not refused":  `DELETE FROM convoy_refusals WHERE transaction <> $1`,
	} {
		t.Run(name, func(t *testing.T) { requireFound(t, store, c, damage, stream) })
	}
}

// requireFound checks that damage to the records is found. It is undone.
func requireFound(t *testing.T, store *sqlstore.Store, c *conductor.Conductor, damage, stream string) {
	tx, err := store.DB().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	changed, err := tx.ExecContext(t.Context(), damage, stream)
	require.NoError(t, err)
	rows, err := changed.RowsAffected()
	require.NoError(t, err)
	require.Positive(t, rows)
	r, err := c.LookAtRecords(t.Context(), tx)
	require.NoError(t, err)
	require.Error(t, r.Failure())
}
