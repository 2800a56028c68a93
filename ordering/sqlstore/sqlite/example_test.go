package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// Each deposit is added once, though every one comes twice and in the wrong
// order, and the program is started twice.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	for range 2 {
		if err := run(filepath.Join(dir, "bank.db")); err != nil {
			panic(err)
		}
	}
	// Output:
	// balance 60
	// balance 60
}

func run(path string) error {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Migrate(ctx, "bank", []string{
		`CREATE TABLE balance (amount INT NOT NULL); INSERT INTO balance VALUES (0)`,
	}); err != nil {
		return err
	}
	sequencer, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
		Store: store,
		Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
			_, err := tx.ExecContext(ctx, `UPDATE balance SET amount = amount + $1`, job.Event.Payload[0])
			return err
		}),
	})
	if err != nil {
		return err
	}
	defer sequencer.Close()
	account := lockkeys.Must("account", "7")
	for _, n := range []uint64{2, 3, 2, 1, 1, 3} {
		e := &ordering.Event{Positions: []ordering.Position{{Stream: account, Number: n}}, Payload: []byte{byte(10 * n)}}
		if err := sequencer.Offer(ctx, e, nil); err != nil {
			return err
		}
	}
	if err := sequencer.Drain(ctx); err != nil {
		return err
	}
	var amount int
	err = store.DB().QueryRow(`SELECT amount FROM balance`).Scan(&amount)
	fmt.Println("balance", amount)
	return err
}
