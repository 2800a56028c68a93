package durable

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/bench/internal/measure"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// database is a new one, as a plain loop opens it and as the sequencer does.
type database struct {
	driver, dsn string
	open        func(ctx context.Context) (*sqlstore.Store, error)
}

// newSQLite has a write-ahead log and synchronous=FULL in either way.
func newSQLite(t testing.TB) database {
	path := filepath.Join(t.TempDir(), "ledger.db")
	return database{
		"sqlite", "file:" + filepath.ToSlash(path) + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)",
		func(ctx context.Context) (*sqlstore.Store, error) { return sqlite.Open(ctx, path) },
	}
}

// onPostgres makes databases on a server with the settings that it comes with, over a link
// on which a round trip takes longer by that much, and which limits nothing else.
func onPostgres(server *pgtest.Server, distance time.Duration) func(t testing.TB) database {
	return func(t testing.TB) database {
		url := server.Database(t)
		if distance > 0 {
			link, through, err := pgtest.NewLink(url, distance/2)
			require.NoError(t, err)
			t.Cleanup(func() { link.Close() })
			url = through
		}
		return database{"pgx", url, func(ctx context.Context) (*sqlstore.Store, error) { return postgres.Open(ctx, url) }}
	}
}

// writer applies entries to the database for which it was made by an opener, and which the
// opener returns too.
type (
	writer func(ctx context.Context, entries []entry) error
	opener func(t testing.TB, d database) (writer, *sql.DB)
)

// contender is a way to write the ledger.
type contender struct {
	name string
	open opener
}

const grouped = 64 // messages in a transaction of a loop, as it suits the disk

func sqliteContenders(workers int, hot bool) []contender {
	group := workers // about as many as the sequencer has in a transaction
	if hot {
		group = grouped
	}
	return []contender{
		{"one-by-one", byLoop(1, false)},
		{"interlock", byInterlock(workers, false)},
		{fmt.Sprint("grouped-", group), byLoop(group, false)},
		{"flush", flush},
	}
}

var postgresContenders = []contender{
	{"one-by-one", byLoop(1, false)},
	{"interlock", byInterlock(8, true)},
	{"interlock-waiting", byInterlock(8, false)},
	{"grouped-64", byLoop(grouped, false)},
	{"grouped-64-pipelined", byLoop(grouped, true)},
	{"flush", flush},
}

// flush is the physical floor of one transaction for each message: it appends a page to a
// file and flushes it.
func flush(t testing.TB, _ database) (writer, *sql.DB) {
	f, err := os.Create(filepath.Join(t.TempDir(), "pages"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	page := make([]byte, 4096)
	return func(_ context.Context, entries []entry) error {
		for range entries {
			if _, err := f.Write(page); err != nil {
				return err
			}
			if err := f.Sync(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func BenchmarkSQLite(b *testing.B) {
	for _, hot := range []bool{false, true} {
		for _, workers := range []int{8, 64} {
			b.Run(fmt.Sprintf("accounts=%s/workers=%d", load(hot), workers), func(b *testing.B) {
				compare(b, hot, newSQLite, sqliteContenders(workers, hot))
			})
		}
	}
}

func BenchmarkPostgreSQL(b *testing.B) {
	server := pgtest.Start(b)
	for _, distance := range []time.Duration{0, time.Millisecond} {
		for _, hot := range []bool{false, true} {
			b.Run(fmt.Sprintf("accounts=%s/link=%v", load(hot), distance), func(b *testing.B) {
				compare(b, hot, onPostgres(server, distance), postgresContenders)
			})
		}
	}
}

func load(hot bool) string {
	if hot {
		return "one"
	}
	return "any"
}

func compare(b *testing.B, hot bool, create func(testing.TB) database, contenders []contender) {
	race := measure.Race{Rate: "msg/s"}
	for _, c := range contenders {
		race.Run(b, c.name, func(b *testing.B) {
			write, _ := c.open(b, create(b))
			l := newLedger(hot)
			require.NoError(b, write(b.Context(), l.entries(100))) // warms up
			entries := l.entries(b.N)
			b.ResetTimer()
			require.NoError(b, write(b.Context(), entries))
			b.StopTimer()
		})
	}
}

// All contenders have the same books in the end.
func TestBooks(t *testing.T) {
	server := pgtest.Start(t)
	for _, hot := range []bool{false, true} {
		for _, d := range []struct {
			create     func(testing.TB) database
			contenders []contender
		}{
			{newSQLite, sqliteContenders(8, hot)},
			{onPostgres(server, 0), postgresContenders},
			{onPostgres(server, time.Millisecond), postgresContenders},
		} {
			var books []book
			for _, c := range d.contenders {
				l := newLedger(hot)
				write, db := c.open(t, d.create(t))
				require.NoError(t, write(t.Context(), l.entries(200)), c.name)
				require.NoError(t, write(t.Context(), l.entries(50)), c.name)
				if db != nil {
					books = append(books, readBook(t, db))
				}
			}
			require.GreaterOrEqual(t, len(books), 3)
			require.EqualValues(t, 250, books[0].journal)
			for _, b := range books {
				require.Equal(t, books[0], b)
			}
		}
	}
}

// book is the gist of a ledger's tables.
type book struct{ accounts, total, squares, journal int64 }

func readBook(t testing.TB, db *sql.DB) (b book) {
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT COUNT(*), CAST(SUM(amount) AS BIGINT), CAST(SUM(amount * amount) AS BIGINT),
		(SELECT COUNT(*) FROM journal) FROM balances`).Scan(&b.accounts, &b.total, &b.squares, &b.journal))
	return b
}
