package sqlstore_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/storetest"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Kind{Durable: true, OneWriter: true, New: func(t *testing.T) func() ordering.Store {
		path := empty(t)
		return func() ordering.Store {
			store, err := sqlite.Open(t.Context(), path)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			return store
		}
	}})
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	url := database(t)
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	schemas := 0
	storetest.Run(t, storetest.Kind{Durable: true, New: func(t *testing.T) func() ordering.Store {
		// A schema for each test: databases take longer than the tests.
		schemas++
		schema := fmt.Sprint("test", schemas)
		_, err := db.ExecContext(t.Context(), `CREATE SCHEMA `+schema)
		require.NoError(t, err)
		return func() ordering.Store {
			store, err := postgres.Open(t.Context(), url+"&search_path="+schema)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			return store
		}
	}})
}

var _ ordering.Store = (*sqlstore.Store)(nil)
