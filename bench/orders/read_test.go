package orders

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/orders/parts"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/eventlog"
)

// The questions, as the tables of a CRUD shop answer them: an order with its lines; the
// latest 100 changes of a customer's orders; the orders and their sums by status.
const (
	askOrder   = `SELECT o.customer, o.status, o.cents, l.product, l.quantity, l.price FROM orders o JOIN order_lines l ON l.order_id = o.order_id WHERE o.order_id = $1`
	askHistory = `SELECT a.id, a.action, a.at, a.data FROM orders o CROSS JOIN audit a ON a.entity = 'order' AND a.id = o.order_id WHERE o.customer = $1 ORDER BY a.n DESC LIMIT 100` // CROSS: SQLite begins with the orders
	askSummary = `SELECT status, count(*), sum(cents) FROM orders GROUP BY status`
)

// kinds are the events of an order that is completed.
var kinds = []string{parts.OrderPlaced, parts.OrderValidated, parts.PaymentAuthorized, parts.InventoryReserved, parts.OrderShipped, parts.OrderCompleted}

// models returns the read models of the shop, of n completed orders.
func models(t testing.TB, n int) *parts.Views {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "shop.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	log, err := eventlog.New(t.Context(), store.DB(), eventlog.SQLite, eventlog.Config{})
	require.NoError(t, err)
	const together = 40
	for first := 0; first < n; first += together {
		require.NoError(t, store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			var events []*ordering.Event
			for i := first; i < min(n, first+together); i++ {
				for _, kind := range kinds {
					var payload any
					if kind == parts.OrderPlaced {
						payload = placement(i)
					}
					e, err := parts.Event(kind, fmt.Sprintf("%08d", i), payload)
					if err != nil {
						return err
					}
					events = append(events, e)
				}
			}
			_, err := log.Append(ctx, tx, events)
			return err
		}))
	}
	v, err := parts.StartViews(t.Context(), log, store)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	require.NoError(t, v.CatchUp(t.Context()))
	return v
}

// crud returns the tables of the shop that calls its services, with n completed orders.
func crud(t testing.TB, n int) *sql.DB {
	b := open(t, "calls", "", "local", "")
	t.Cleanup(func() { b.end(t) })
	_, failed := b.run(t, 100, n)
	require.Zero(t, failed)
	return b.contender.(*calls).store.DB()
}

// count runs a query and returns the number of its rows, all read.
func count(t testing.TB, db *sql.DB, query string, args ...any) (n int) {
	rows, err := db.QueryContext(t.Context(), query, args...)
	require.NoError(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	values := make([]any, len(columns))
	for i := range values {
		values[i] = new(any)
	}
	for ; rows.Next(); n++ {
		require.NoError(t, rows.Scan(values...))
	}
	require.NoError(t, rows.Err())
	return n
}

// questions calls ask for each question, with the way in which each side answers the i-th
// time, as a number of rows.
func questions(t testing.TB, n int, ask func(name string, tables, models func(i int) int)) {
	db, v := crud(t, n), models(t, n)
	ask("simple", func(i int) int { return count(t, db, askOrder, fmt.Sprintf("%08d", 1+i%n)) }, func(i int) int {
		_, found, err := v.Details(t.Context(), fmt.Sprintf("%08d", i%n))
		require.NoError(t, err)
		require.True(t, found)
		return 2 // its lines are in it
	})
	ask("complex", func(i int) int { return count(t, db, askHistory, placement(i).Customer) }, func(i int) int {
		list, err := v.History(t.Context(), placement(i).Customer)
		require.NoError(t, err)
		return len(list)
	})
	ask("aggregate", func(int) int { return count(t, db, askSummary) }, func(int) int {
		list, err := v.Summary(t.Context())
		require.NoError(t, err)
		return len(list)
	})
}

// Both sides know the answers.
func TestQuestions(t *testing.T) {
	questions(t, customers, func(name string, tables, models func(int) int) {
		want := map[string][2]int{"simple": {2, 2}, "complex": {4, len(kinds)}, "aggregate": {1, 1}}[name]
		require.Equal(t, want, [2]int{tables(7), models(7)}, name)
	})
}

// BenchmarkReads asks the tables of a CRUD shop and the read models of the shop as it is,
// each with 5,000 orders of 200 customers.
func BenchmarkReads(b *testing.B) {
	questions(b, 5_000, func(name string, tables, models func(int) int) {
		for _, side := range []struct {
			by     string
			answer func(int) int
		}{{"tables", tables}, {"models", models}} {
			b.Run("question="+name+"/by="+side.by, func(b *testing.B) {
				for i := range b.N {
					side.answer(i)
				}
			})
		}
	})
}
