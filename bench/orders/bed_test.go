package orders

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/orders/parts"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// contender is a way to make a shop.
type contender interface {
	// order places an order, and returns when it is completed.
	order(ctx context.Context, id string, p parts.Placement) error
	// drain waits until read models have all.
	drain(ctx context.Context) error
	close() error
}

// contenders by their names, in the order of the table.
var contenders = []struct {
	name string
	open func(ctx context.Context, database string, s *parts.Services) (contender, error)
}{
	{"transaction", openTransaction},
	{"calls", openCalls},
	{"saga", openSaga},
	{"saga+log", openShop},
}

// The made-up world: the same as in the example's simulation, but nothing fails.
const (
	products  = 20
	customers = 200
)

func product(n int) string { return fmt.Sprintf("product-%02d", n%products) }

// placement is the order of a number: two lines of products that are next to each other.
func placement(n int) parts.Placement {
	return parts.Placement{Customer: fmt.Sprintf("customer-%03d", n%customers), Card: "card", Country: "DE", Lines: []parts.Line{
		{Product: product(n * 7), Quantity: 1, Price: 3990}, {Product: product(n*7 + 1), Quantity: 2, Price: 250}}}
}

// bed is a contender with its services and databases.
type bed struct {
	contender
	services *parts.Services
	dir      string // of the services' databases
	database string // the shop's own: a path, or the URL of one of PostgreSQL
}

// databases of the shop, new each time; "" is one of SQLite. The services have theirs on
// SQLite.
var databases = []struct {
	name string
	new  func(t testing.TB) string
}{
	{"SQLite", func(testing.TB) string { return "" }},
	{"PostgreSQL", func(t testing.TB) string { return pgtest.Start(t).Database(t) }},
}

// open opens a contender with its services in a folder of its own, where its database is
// too, unless one is given. There is enough of every product.
func open(t testing.TB, name, database, transport, broker string) *bed {
	b := &bed{dir: t.TempDir(), database: database}
	if b.database == "" {
		b.database = filepath.Join(b.dir, "shop.db")
	}
	var err error
	b.services, err = parts.OpenServices(t.Context(), parts.Options{Dir: b.dir, Transport: transport, Broker: broker})
	require.NoError(t, err)
	for n := range products {
		require.NoError(t, b.services.Inventory.Stock(t.Context(), product(n), 1_000_000))
	}
	for _, c := range contenders {
		if c.name == name {
			b.contender, err = c.open(t.Context(), b.database, b.services)
			require.NoError(t, err)
		}
	}
	return b
}

// end closes all, so that the databases can be measured.
func (b *bed) end(t testing.TB) {
	require.NoError(t, b.close())
	require.NoError(t, b.services.Close())
}

// bytes returns the size of the databases after [bed.end]: of the shop's own, of all, and
// of an event in its log, 0 if it has none.
func (b *bed) bytes(t testing.TB) (own, all, event float64) {
	files, err := filepath.Glob(filepath.Join(b.dir, "*.db"))
	require.NoError(t, err)
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		all += float64(info.Size())
		if file == b.database {
			own = float64(info.Size())
		}
	}
	tables := b.tables(t)
	if own == 0 { // on PostgreSQL a database begins with megabytes of its own
		for _, table := range tables {
			own += float64(table.bytes)
		}
		all += own
	}
	var events int64
	for _, table := range tables {
		if strings.HasPrefix(table.name, "outbox") || strings.HasPrefix(table.name, "eventlog") {
			event += float64(table.bytes)
		}
		if table.name == "eventlog_entries" {
			events = table.rows
		}
	}
	return own, all, event / float64(max(events, 1))
}

// table is a table with its indexes.
type table struct {
	name        string
	bytes, rows int64
}

// tables returns the tables of the shop's own database, the largest first.
func (b *bed) tables(t testing.TB) (list []table) {
	driver, query := "sqlite", `SELECT s.tbl_name, sum(d.pgsize) FROM dbstat d JOIN sqlite_schema s ON s.name = d.name GROUP BY 1 ORDER BY 2 DESC`
	if isPostgres(b.database) {
		driver, query = "pgx", `SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables ORDER BY 2 DESC`
	}
	db, err := sql.Open(driver, b.database)
	require.NoError(t, err)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), query)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var one table
		require.NoError(t, rows.Scan(&one.name, &one.bytes))
		list = append(list, one)
	}
	require.NoError(t, rows.Err())
	for i := range list {
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+list[i].name).Scan(&list[i].rows))
	}
	return list
}

func isPostgres(database string) bool { return strings.HasPrefix(database, "postgres") }

// openStore opens the database of a contender.
func openStore(ctx context.Context, database string) (*sqlstore.Store, error) {
	if isPostgres(database) {
		return postgres.Open(ctx, database)
	}
	return sqlite.Open(ctx, database)
}

var quiet = slog.New(slog.DiscardHandler)

// shopAsItIs is the shop of the example.
type shopAsItIs struct{ *parts.Shop }

func openShop(ctx context.Context, database string, s *parts.Services) (contender, error) {
	shop, err := parts.OpenShop(ctx, database, s.Callers, true, quiet)
	return shopAsItIs{shop}, err
}

func (s shopAsItIs) order(ctx context.Context, id string, p parts.Placement) error {
	if _, err := s.Place(ctx, id, p); err != nil {
		return err
	}
	return completed(s.Sagas.Await(ctx, id))
}

func (s shopAsItIs) drain(ctx context.Context) error { return s.CatchUp(ctx) }
func (s shopAsItIs) close() error                    { return s.Close() }

// statements are prepared once, as those of the library are.
type statements map[string]*sql.Stmt

func prepare(ctx context.Context, store *sqlstore.Store, texts ...string) (statements, error) {
	s := statements{}
	for _, text := range texts {
		var err error
		if s[text], err = store.Prepare(ctx, text); err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimSpace(text), err)
		}
	}
	return s, nil
}

func (s statements) exec(ctx context.Context, tx *sql.Tx, text string, args ...any) error {
	_, err := tx.StmtContext(ctx, s[text]).ExecContext(ctx, args...)
	return err
}
