// A saga: an order reserves its product, and is paid elsewhere. If the payment is refused, the
// reservation is undone. Nobody sees it half done; after a crash it goes on where it was.
//
//	go run ./examples/09-saga
//
// Next: 10-inspector; and examples/orders for a whole shop.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/saga"
)

type order struct{ Product, Card string } // the state of a saga, kept as JSON

var checkout = saga.Definition[order]{
	Name: "checkout", Version: 1, Kept: []lockkeys.Key{lockkeys.Must("product")}, // what Keep takes is below that
	Keep: func(o *order, claim *lockkeys.Claim) error {
		key, err := lockkeys.New("product", o.Product)
		claim.Exclusive(key)
		return err
	},
	Steps: []saga.Step[order]{
		{Name: "reserve", DoTx: change(-1), UndoTx: change(+1)}, // in the transaction that records it
		{Name: "pay", Do: pay, Pivot: true},                     // the intent is recorded before; no way back after
	},
}

func change(by int) func(context.Context, *sql.Tx, saga.Call, *order) error {
	return func(ctx context.Context, tx *sql.Tx, _ saga.Call, o *order) error {
		_, err := tx.ExecContext(ctx, `UPDATE stock SET pieces = pieces + $1 WHERE product = $2`, by, o.Product)
		return err
	}
}

func pay(_ context.Context, call saga.Call, o *order) error {
	if o.Card == "" {
		return dispatcher.Permanent(fmt.Errorf("no card for %s", call.Key())) // any other error: try again
	}
	return nil // the call to the bank: by call.Key it knows a payment that is asked for again
}

func main() {
	ctx, path := context.Background(), flag.String("db", "shop.db", "database file")
	flag.Parse()
	store, err := sqlite.Open(ctx, *path)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx, "shop", []string{`CREATE TABLE stock (product TEXT, pieces INT); INSERT INTO stock VALUES ('chair', 10)`}); err != nil {
		log.Fatal(err)
	}
	sagas, err := saga.New(ctx, saga.Config{Store: store}, saga.Register(checkout))
	if err != nil {
		log.Fatal(err)
	}
	defer sagas.Close()
	for id, card := range map[string]string{"order-1": "4000", "order-2": ""} {
		if err := store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			return sagas.Start(ctx, tx, id, order{"chair", card}) // does nothing if there is a saga of this ID
		}); err != nil {
			log.Fatal(err)
		}
		status, err := sagas.Await(ctx, id)
		fmt.Println(id, status, err)
	}
	var pieces int
	err = store.DB().QueryRow(`SELECT pieces FROM stock`).Scan(&pieces)
	fmt.Println("chairs left:", pieces, err)
}
