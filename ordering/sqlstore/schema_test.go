package sqlstore_test

import (
	"path/filepath"
	"testing"

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
		_, err = store.DB().Exec(`UPDATE schema_versions SET version = version + 1 WHERE component = 'ordering'`)
		require.NoError(t, err)
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

// TestNamesOfTheLibrary are not the caller's: his steps would be taken for the
// newer ones of another program, or the other way round.
func TestNamesOfTheLibrary(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		for _, name := range []string{"ordering", "Ordering", "outbox", "", "a b"} {
			require.ErrorIs(t, store.Migrate(t.Context(), name, []string{`SELECT 1`, `CREATE TABLE x (n INT)`}), sqlstore.ErrComponent)
		}
		require.NoError(t, store.Close())
		require.NoError(t, open().Close())
	})
}
