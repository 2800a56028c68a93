package sqlstore_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// TestParkingVisitsItsOwnStreamsOnly: what is done about one parking costs the same
// however many streams there are, or are parked: SQLite finds its streams by the
// index, and each by its key.
func TestParkingVisitsItsOwnStreamsOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	store, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	for _, statement := range sqlstore.ParkedStatements {
		rows, err := db.QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+statement, 1, "p")
		if err != nil { // it has one argument
			rows, err = db.QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+statement, 1)
		}
		require.NoError(t, err, statement)
		for rows.Next() {
			var id, parent, unused int
			var detail string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
			require.NotContains(t, detail, "PRIMARY KEY (consumer=?)", statement)
			require.NotContains(t, detail, "SCAN", statement)
		}
		require.NoError(t, rows.Close())
	}
}
