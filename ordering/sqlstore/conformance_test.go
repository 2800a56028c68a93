package sqlstore_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/storetest"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

func TestSQLite(t *testing.T) {
	storetest.Run(t, storetest.Kind{Durable: true, OneWriter: true, New: func(t *testing.T) func() ordering.Store {
		path := filepath.Join(t.TempDir(), "positions.db")
		return func() ordering.Store {
			store, err := sqlite.Open(t.Context(), path)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			return store
		}
	}})
}

func TestPostgres(t *testing.T) {
	storetest.Run(t, storetest.Kind{Durable: true, New: func(t *testing.T) func() ordering.Store {
		url := database(t)
		return func() ordering.Store {
			store, err := postgres.Open(t.Context(), url)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			return store
		}
	}})
}

var _ ordering.Store = (*sqlstore.Store)(nil)
