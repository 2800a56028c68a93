package sqldb_test

import (
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/sqldb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// everywhere runs a test with a database that can be opened many times.
func everywhere(t *testing.T, test func(t *testing.T, d sqldb.Dialect, open func() *sql.DB)) {
	opener := func(t *testing.T, driver, source string) func() *sql.DB {
		return func() *sql.DB {
			db, err := sql.Open(driver, source)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, db.Close()) })
			return db
		}
	}
	t.Run("SQLite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "test.db")
		test(t, sqldb.SQLite, opener(t, "sqlite", "file:"+path+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)"))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		test(t, sqldb.PostgreSQL, opener(t, "pgx", pgtest.Start(t, "fsync=off").Database(t)))
	})
}

// A dialect that is not that of the database is named, and the connection can be used again.
func TestAnotherDialect(t *testing.T) {
	everywhere(t, func(t *testing.T, d sqldb.Dialect, open func() *sql.DB) {
		db := open()
		db.SetMaxOpenConns(1)
		other := sqldb.SQLite + sqldb.PostgreSQL - d
		err := sqldb.Migrate(t.Context(), db, other, "fruit", nil)
		require.EqualError(t, err, "the database is one of "+d.String()+", and the dialect is that of "+other.String()+": give the other one")
		require.NoError(t, sqldb.Migrate(t.Context(), db, d, "fruit", nil))
		require.NoError(t, db.Close())
		err = sqldb.Migrate(t.Context(), db, d, "fruit", nil)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "dialect", "a database that is away")
	})
}

func TestMigrate(t *testing.T) {
	everywhere(t, func(t *testing.T, d sqldb.Dialect, open func() *sql.DB) {
		db := open()
		migrate := func(component string, steps ...string) error {
			return sqldb.Migrate(t.Context(), db, d, component, steps)
		}
		first := `CREATE TABLE fruit (name ` + d.Text() + ` PRIMARY KEY); INSERT INTO fruit VALUES ('Apple')`
		second := `ALTER TABLE fruit ADD COLUMN color TEXT NOT NULL DEFAULT 'red'`

		t.Log("no step is taken twice")
		require.NoError(t, migrate("fruit", first))
		require.NoError(t, migrate("fruit", first))

		t.Log("a step that fails takes those before it along, and says which it is")
		err := migrate("fruit", first, second, `CREATE NONSENSE`)
		require.ErrorContains(t, err, "fruit, step 3")
		_, err = db.Exec(`SELECT color FROM fruit`)
		require.Error(t, err)

		t.Log("an older database is brought up to date")
		require.NoError(t, migrate("fruit", first, second))
		_, err = db.Exec(`INSERT INTO fruit (name, color) VALUES ('apple', 'green')`)
		require.NoError(t, err)

		t.Log("one of a newer program is left alone")
		err = migrate("fruit", first)
		require.ErrorIs(t, err, sqldb.ErrSchema)
		require.ErrorContains(t, err, "use a newer one")

		t.Log("components have versions of their own")
		require.NoError(t, migrate("bread", `CREATE TABLE bread (name TEXT)`))
		require.NoError(t, migrate("nothing"))

		t.Log("text is compared as bytes")
		var name string
		require.NoError(t, db.QueryRow(`SELECT name FROM fruit ORDER BY name LIMIT 1`).Scan(&name))
		require.Equal(t, "Apple", name)
	})
}

func TestManyMigrateAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, d sqldb.Dialect, open func() *sql.DB) {
		require.NoError(t, open().Ping()) // on SQLite, to switch to a write-ahead log is refused at once to the second of two
		var wait sync.WaitGroup
		for range 8 {
			db := open()
			wait.Go(func() {
				assert.NoError(t, sqldb.Migrate(t.Context(), db, d, "counter", []string{
					`CREATE TABLE counter (n INT)`, `INSERT INTO counter VALUES (1)`}))
			})
		}
		wait.Wait()
		var n int
		require.NoError(t, open().QueryRow(`SELECT count(*) FROM counter`).Scan(&n))
		require.Equal(t, 1, n)
	})
}

// One that has waited for another sees what that has done, whatever the isolation level of
// the database's transactions is.
func TestMigrateWaitsAtAnyLevel(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			source := pgtest.Start(t, "fsync=off").Database(t) + "&default_transaction_isolation=" + url.PathEscape(level)
			db, err := sql.Open("pgx", source)
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()

			t.Log("both wait, and then go on one after the other")
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			_, err = tx.Exec(`SELECT pg_advisory_xact_lock(496362878345)`)
			require.NoError(t, err)
			results := make(chan error)
			for range 2 {
				go func() {
					results <- sqldb.Migrate(t.Context(), db, sqldb.PostgreSQL, "fruit", []string{`CREATE TABLE fruit (name TEXT)`})
				}()
			}
			require.Eventually(t, func() bool {
				var n int
				err := db.QueryRow(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`).Scan(&n)
				return err == nil && n == 2
			}, time.Minute, time.Millisecond)
			require.NoError(t, tx.Commit())
			require.NoError(t, <-results)
			require.NoError(t, <-results)
		})
	}
}

// What is not known is not told: a database that is away may have all tables.
func TestCheckVersion(t *testing.T) {
	everywhere(t, func(t *testing.T, d sqldb.Dialect, open func() *sql.DB) {
		db := open()
		require.ErrorIs(t, sqldb.CheckVersion(t.Context(), db, "fruit", 1), sqldb.ErrSchema, "no table at all")
		require.NoError(t, sqldb.Migrate(t.Context(), db, d, "fruit", []string{`CREATE TABLE fruit (name TEXT)`}))
		require.NoError(t, sqldb.CheckVersion(t.Context(), db, "fruit", 1))
		for _, version := range []int{0, 2} {
			require.ErrorIs(t, sqldb.CheckVersion(t.Context(), db, "fruit", version), sqldb.ErrSchema)
		}
		require.ErrorIs(t, sqldb.CheckVersion(t.Context(), db, "bread", 1), sqldb.ErrSchema)
		require.NoError(t, db.Close())
		err := sqldb.CheckVersion(t.Context(), db, "fruit", 1)
		require.Error(t, err)
		require.NotErrorIs(t, err, sqldb.ErrSchema)
	})
}

// TestTablesOfOthers that have the name of ours are not touched.
func TestTablesOfOthers(t *testing.T) {
	everywhere(t, func(t *testing.T, d sqldb.Dialect, open func() *sql.DB) {
		db := open()
		_, err := db.Exec(`CREATE TABLE schema_versions (revision INT)`)
		require.NoError(t, err)
		err = sqldb.Migrate(t.Context(), db, d, "fruit", []string{`CREATE TABLE fruit (n INT)`})
		require.ErrorContains(t, err, "schema_versions")
		require.ErrorContains(t, err, "another database")
		_, err = db.Exec(`SELECT n FROM fruit`)
		require.Error(t, err)
	})
}

func TestNamesOfComponents(t *testing.T) {
	for _, good := range []string{"bank", "Bank-2", "a", "my/app_v1.2", strings.Repeat("x", 64)} {
		assert.NoError(t, sqldb.CheckComponent(good), good)
	}
	for _, bad := range []string{"ordering", "Ordering", "outbox", "OUTBOX", "", " ordering", "a b", "a\x00", "\xff", "orderıng", "'; --", strings.Repeat("x", 65)} {
		require.ErrorIs(t, sqldb.CheckComponent(bad), sqldb.ErrComponent, bad)
	}
}
