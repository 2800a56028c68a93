package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// make makes an SQLite database and returns its path.
func makeDatabase(t *testing.T, statements string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "a database of others?#%41.db")
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path))
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	_, err = db.Exec(statements)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return path
}

// folder is what is in the folder of a file: names, modes and contents.
func folder(t *testing.T, path string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	files := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), e.Name()))
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		files[e.Name()] = info.Mode().String() + info.ModTime().String() + string(text)
	}
	return files
}

// TestAForeignDatabaseStaysAsItIs, byte for byte, and nothing comes to be
// beside it.
func TestAForeignDatabaseStaysAsItIs(t *testing.T) {
	cases := map[string]string{
		"tables":                           `CREATE TABLE customers (n INT); INSERT INTO customers VALUES (7)`,
		"a table of the store's name":      `CREATE TABLE ordering_jobs (customer INT)`,
		"versions of another shape":        `CREATE TABLE schema_versions (n INT)`,
		"versions of other components":     `CREATE TABLE schema_versions (component TEXT, version INT); INSERT INTO schema_versions VALUES ('x', 1)`,
		"a write-ahead log, which is kept": `PRAGMA journal_mode = WAL; CREATE TABLE customers (n INT)`,
		"no write-ahead log":               `PRAGMA journal_mode = TRUNCATE; CREATE TABLE customers (n INT)`,
		"many tables":                      strings.Repeat(`CREATE TABLE "`+strings.Repeat("t", 100)+`"(n INT);`, 1) + `CREATE TABLE a (n); CREATE TABLE b (n); CREATE TABLE c (n); CREATE TABLE d (n); CREATE TABLE e (n)`,
	}
	for name, statements := range cases {
		t.Run(name, func(t *testing.T) {
			path := makeDatabase(t, statements)
			before := folder(t, path)
			_, err := sqlite.Open(t.Context(), path)
			require.ErrorIs(t, err, sqlite.ErrForeign)
			require.ErrorContains(t, err, path)
			assert.Equal(t, before, folder(t, path))
		})
	}
}

// TestAForeignDatabaseInUse has its newest tables in its log.
func TestAForeignDatabaseInUse(t *testing.T) {
	path := makeDatabase(t, `PRAGMA journal_mode = WAL`)
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path))
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	defer db.Close()
	_, err = db.Exec(`CREATE TABLE customers (n INT)`)
	require.NoError(t, err)
	before := folder(t, path)
	_, err = sqlite.Open(t.Context(), path)
	require.ErrorIs(t, err, sqlite.ErrForeign)
	after := folder(t, path)
	for name := range before {
		if !strings.HasSuffix(name, "-shm") { // the marks of who reads, which those who read share
			assert.Equal(t, before[name], after[name], name)
		}
	}
	assert.Len(t, after, len(before))
}

func TestFilesThatAreNoDatabase(t *testing.T) {
	for name, text := range map[string]string{
		"text":  "this is not a database, but long enough to be taken for one if nobody looks at how it begins",
		"short": "x",
		"torn":  "SQLite format 3\x00" + strings.Repeat("\xff", 500),
	} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o640))
		before := folder(t, path)
		_, err := sqlite.Open(t.Context(), path)
		require.ErrorContains(t, err, path)
		assert.Equal(t, before, folder(t, path))
	}
	_, err := sqlite.Open(t.Context(), t.TempDir())
	require.Error(t, err)
	_, err = sqlite.Open(t.Context(), "")
	require.EqualError(t, err, `open database "": it is no file: give the path of one`)
	_, err = sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "no", "such", "folder.db"))
	require.Error(t, err)
}

// TestDatabasesThatAreTaken: a new one, an empty one, a store's own, one of an
// outbox, and with OpenBeside any other.
func TestDatabasesThatAreTaken(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.db")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for name, path := range map[string]string{
		"new":           filepath.Join(t.TempDir(), "new.db"),
		"empty":         empty,
		"without table": makeDatabase(t, `PRAGMA user_version = 7; VACUUM`),
		"an outbox's":   makeDatabase(t, `CREATE TABLE schema_versions (component TEXT PRIMARY KEY, version BIGINT NOT NULL); INSERT INTO schema_versions VALUES ('outbox', 1)`),
	} {
		for range 2 {
			store, err := sqlite.Open(t.Context(), path)
			require.NoError(t, err, name)
			require.NoError(t, store.Close())
		}
	}
	foreign := makeDatabase(t, `CREATE TABLE customers (n INT)`)
	store, err := sqlite.OpenBeside(t.Context(), foreign)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	store, err = sqlite.Open(t.Context(), foreign)
	require.NoError(t, err)
	require.NoError(t, store.Close())
}

// TestTheFileIsItsOwners: nobody else may read it, nor the files beside it.
func TestTheFileIsItsOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.db")
	store, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	defer store.Close()
	files := folder(t, path)
	assert.Len(t, files, 3)
	for name, text := range files {
		assert.True(t, strings.HasPrefix(text, "-rw-------"), name)
	}
}
