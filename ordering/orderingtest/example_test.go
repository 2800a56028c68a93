package orderingtest_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/orderingtest"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// payments are events that each add one to account 7.
func payments(n int) (events []*ordering.Event) {
	for i := range n {
		position := ordering.Position{Stream: lockkeys.Must("account", "7"), Number: uint64(i + 1)}
		events = append(events, &ordering.Event{Positions: []ordering.Position{position}})
	}
	return events
}

// pay is the handler under test.
func pay(ctx context.Context, tx *sql.Tx, _ ordering.Job[*ordering.Event]) error {
	_, err := tx.ExecContext(ctx, `UPDATE balance SET amount = amount + 1`)
	return err
}

// open returns a new database with a balance of 0.
func open(t *testing.T) *sqlstore.Store {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "bank.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	err = store.Migrate(t.Context(), "bank", []string{`CREATE TABLE balance (amount INT NOT NULL); INSERT INTO balance VALUES (0)`})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func balance(t *testing.T, store *sqlstore.Store) (amount int) {
	if err := store.DB().QueryRow(`SELECT amount FROM balance`).Scan(&amount); err != nil {
		t.Fatal(err)
	}
	return amount
}

// testPay is a test of the handler in a process that ends before, during and after each
// of its commits.
func testPay(t *testing.T) {
	orderingtest.EachCrash(t, func(t *testing.T, crash *orderingtest.Crash) {
		store := open(t)
		orderingtest.Deliver(t, crash, ordering.Config[*ordering.Event]{Store: store, Handler: sqlstore.InTx(store, pay)}, payments(2)...)
		if n := balance(t, store); n != 2 {
			t.Errorf("the balance is %d, want 2", n)
		}
	})
}

// testPayAlone calls the handler by itself.
func testPayAlone(t *testing.T) {
	store := open(t)
	job := orderingtest.NewJob(t, store, payments(1)[0], payments(1)[0])
	call := orderingtest.NewCall(t, job, nil)
	if err := sqlstore.InTx(store, pay)(call.Context(), job); err != nil {
		t.Fatal(err)
	}
	if n := balance(t, store); n != 1 || !job.IsCommitted() {
		t.Errorf("the balance is %d, want 1", n)
	}
}

// Two tests of a handler: with crashes, and alone.
func Example() {
	var t *testing.T // that of TestPay and TestPayAlone
	testPay(t)
	testPayAlone(t)
}
