package sqldb_test

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/sqldb"
)

// TestSessions: a pooler that gives sessions from one connection to another is
// recognised whatever it has of them, alone or beside others who use it.
func TestSessions(t *testing.T) {
	server := pgtest.Start(t, "fsync=off")
	url := server.Database(t)
	open := func(t *testing.T, url string) *sql.DB {
		db, err := sql.Open("pgx", url)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, db.Close()) })
		return db
	}
	t.Run("direct", func(t *testing.T) {
		db := open(t, url)
		require.NoError(t, sqldb.CheckSessions(t.Context(), db))
		db.SetMaxOpenConns(1)
		require.ErrorContains(t, sqldb.CheckSessions(t.Context(), db), "two connections")
	})
	t.Run("session", func(t *testing.T) {
		require.NoError(t, sqldb.CheckSessions(t.Context(), open(t, server.Pooler(t, url, "session", 4))))
	})
	for _, mode := range []string{"transaction", "statement"} {
		for _, size := range []int{1, 2, 8} {
			t.Run(fmt.Sprint(mode, " ", size), func(t *testing.T) {
				pooler := server.Pooler(t, url, mode, size)
				for _, protocol := range []string{"", "&default_query_exec_mode=simple_protocol"} {
					require.ErrorIs(t, sqldb.CheckSessions(t.Context(), open(t, pooler+protocol)), sqldb.ErrPooled)
				}
			})
		}
	}
	t.Run("busy", func(t *testing.T) {
		pooler := server.Pooler(t, url, "transaction", 4) + "&default_query_exec_mode=simple_protocol"
		others, stop := open(t, pooler), make(chan struct{})
		others.SetMaxIdleConns(8)
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_, _ = others.Exec(`SELECT 1`)
					}
				}
			})
		}
		for range 20 {
			require.ErrorIs(t, sqldb.CheckSessions(t.Context(), open(t, pooler)), sqldb.ErrPooled)
		}
		close(stop)
		wait.Wait()
	})
}
