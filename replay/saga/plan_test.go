package saga_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/replay/saga"
)

// TestActiveRunsAreFoundByTheirIndex: the runs that have ended, which may be many, are not
// gone through.
func TestActiveRunsAreFoundByTheirIndex(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	coordinator(t, config(store), saga.Register(checkout(write("shipped"))))
	for _, query := range []string{
		`SELECT id FROM saga_runs WHERE coordinator = 'a' AND ended = 0 AND term >= 0 ORDER BY +seq, id LIMIT 1`,
		`SELECT id FROM saga_runs WHERE coordinator = 'a' AND ended = 0 AND term >= 0 AND (failing > 0 OR parked > 0 OR changed < 7) ORDER BY changed, seq, id`,
		`SELECT EXISTS (SELECT 1 FROM saga_runs WHERE coordinator = 'a' AND ended = 0 AND term < 3)`,
		`UPDATE saga_runs SET term = 3 WHERE coordinator = 'a' AND ended = 0 AND term > 0 AND term < 3 AND seq <= 7`,
		`UPDATE saga_runs SET term = 3 WHERE coordinator = 'a' AND ended = 0 AND term = 0 AND seq IN (
			SELECT seq FROM saga_runs WHERE coordinator = 'a' AND ended = 0 AND term = 0 ORDER BY seq LIMIT 7)`,
		`UPDATE saga_runs SET term = 3 WHERE coordinator = 'a' AND ended = 0 AND term <= 3 AND (term > 0 OR seq IN (
			SELECT seq FROM saga_runs WHERE coordinator = 'a' AND ended = 0 AND term = 0 ORDER BY seq LIMIT 7))`,
	} {
		rows, err := store.DB().Query(`EXPLAIN QUERY PLAN ` + query)
		require.NoError(t, err)
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var what string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &what))
			if strings.HasPrefix(what, "SEARCH") || strings.HasPrefix(what, "SCAN") {
				plan = append(plan, what)
			}
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
		for _, what := range plan {
			if !strings.Contains(what, "CONSTANT ROW") {
				assert.Contains(t, what, "saga_runs_active", query)
			}
		}
	}
}
