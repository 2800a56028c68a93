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
	"github.com/interlock-go/interlock/ordering/sqlstore"
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
	open func(ctx context.Context, dir string, s *parts.Services) (contender, error)
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
	dir      string
}

// open opens a contender in a folder of its own. There is enough of every product.
func open(t testing.TB, name, transport, broker string) *bed {
	b := &bed{dir: t.TempDir()}
	var err error
	b.services, err = parts.OpenServices(t.Context(), parts.Options{Dir: b.dir, Transport: transport, Broker: broker})
	require.NoError(t, err)
	for n := range products {
		require.NoError(t, b.services.Inventory.Stock(t.Context(), product(n), 1_000_000))
	}
	for _, c := range contenders {
		if c.name == name {
			b.contender, err = c.open(t.Context(), b.dir, b.services)
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
		if filepath.Base(file) == shopDB {
			own = float64(info.Size())
		}
	}
	db, err := sql.Open("sqlite", filepath.Join(b.dir, shopDB))
	require.NoError(t, err)
	defer db.Close()
	var tables int
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM sqlite_schema WHERE name = 'eventlog_entries'`).Scan(&tables))
	if tables > 0 {
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT sum(pgsize) / (SELECT count(*) + 0.0 FROM eventlog_entries) FROM dbstat WHERE name IN
			(SELECT name FROM sqlite_schema WHERE tbl_name LIKE 'outbox%' OR tbl_name LIKE 'eventlog%')`).Scan(&event))
	}
	return own, all, event
}

// shopDB is the file of a contender's own database.
const shopDB = "shop.db"

var quiet = slog.New(slog.DiscardHandler)

// shopAsItIs is the shop of the example.
type shopAsItIs struct{ *parts.Shop }

func openShop(ctx context.Context, dir string, s *parts.Services) (contender, error) {
	shop, err := parts.OpenShop(ctx, filepath.Join(dir, shopDB), s.Callers, true, quiet)
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
