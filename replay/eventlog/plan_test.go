package eventlog

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// On SQLite each query begins with an index that has what it asks for.
func TestPlans(t *testing.T) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	log, err := New(t.Context(), store.DB(), SQLite, Config{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		query Query
		want  string
	}{
		"partition":   {Query{After: 1}, "SEARCH x USING PRIMARY KEY (log=? AND place>?)"},
		"types":       {Query{After: 1, Types: []string{"a", "b"}}, "SEARCH x USING PRIMARY KEY (log=? AND place>?)"},
		"stream":      {Query{Stream: lockkeys.Must("a"), After: 1}, "SEARCH p USING PRIMARY KEY (stream=? AND number>?)"},
		"correlation": {Query{Correlation: "a", After: 1, Backwards: true}, "SEARCH x USING INDEX eventlog_entries_correlation (correlation=? AND log=? AND place>?)"},
	} {
		t.Run(name, func(t *testing.T) {
			text, args := log.statement(c.query, 10)
			rows, err := store.DB().QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, args...)
			require.NoError(t, err)
			defer rows.Close()
			var steps []string
			for rows.Next() {
				var id, parent, unused int
				var step string
				require.NoError(t, rows.Scan(&id, &parent, &unused, &step))
				steps = append(steps, step)
			}
			require.NoError(t, rows.Err())
			assert.Equal(t, c.want, steps[0])
			assert.NotContains(t, steps, "USE TEMP B-TREE FOR ORDER BY")
		})
	}
}
