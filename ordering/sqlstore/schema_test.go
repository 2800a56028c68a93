package sqlstore_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// What package sqldb does with versions is tested there.

func TestADatabaseOfANewerProgramIsRefused(t *testing.T) {
	newer := func(t *testing.T, store *sqlstore.Store, err error) {
		require.NoError(t, err)
		require.NoError(t, store.Migrate(t.Context(), "ordering", []string{"", "CREATE TABLE of_the_future (n INT)"}))
		require.NoError(t, store.Close())
	}
	t.Run("SQLite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "positions.db")
		store, err := sqlite.Open(t.Context(), path)
		newer(t, store, err)
		_, err = sqlite.Open(t.Context(), path)
		require.ErrorIs(t, err, ordering.ErrSchema)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "newer")
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		url := database(t)
		store, err := postgres.Open(t.Context(), url)
		newer(t, store, err)
		_, err = postgres.Open(t.Context(), url)
		require.ErrorIs(t, err, ordering.ErrSchema)
		require.ErrorContains(t, err, "newer")
	})
}

func TestTablesOfTheCallerAreBroughtUpToDate(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		first, second := `CREATE TABLE bank (n INT)`, `ALTER TABLE bank ADD COLUMN m INT NOT NULL DEFAULT 7`
		require.NoError(t, store.Migrate(t.Context(), "bank", []string{first}))
		require.NoError(t, store.Migrate(t.Context(), "bank", []string{first, second}))
		require.NoError(t, store.Migrate(t.Context(), "bank", []string{first, second}))
		require.ErrorIs(t, store.Migrate(t.Context(), "bank", []string{first}), ordering.ErrSchema)
		_, err := store.DB().ExecContext(t.Context(), `INSERT INTO bank (n, m) VALUES (1, 2)`)
		require.NoError(t, err)
	})
}

// TestADatabaseOfAnotherKindIsRefused: one with tables of these names that are
// someone else's, which stay as they are.
func TestADatabaseOfAnotherKindIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(`CREATE TABLE ordering_jobs (customer INT)`)
	require.NoError(t, err)
	_, err = sqlite.Open(t.Context(), path)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "ordering_jobs")
	var tables int
	require.NoError(t, db.QueryRow(`SELECT count(*) FROM sqlite_schema WHERE type = 'table'`).Scan(&tables))
	assert.Equal(t, 1, tables)
}

func TestAFileOfAnotherKindIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "positions.db")
	text := "this is not a database, but long enough to be taken for one if nobody looks at how it begins"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	_, err := sqlite.Open(t.Context(), path)
	require.ErrorContains(t, err, path)
	left, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, text, string(left))
}
