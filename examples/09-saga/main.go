// A saga: an order reserves a piece of its product, and is then paid elsewhere, where no
// transaction reaches. If the payment is refused, the reservation is undone. The order keeps
// its product meanwhile, so nobody sees it half done, also if the process is killed and
// started again: then it goes on where it was.
//
//	go run ./examples/09-saga
//
// Next: 10-inspector; and examples/orders for a whole shop of services.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/saga"
)

// order is the state of a saga, which is kept as JSON.
type order struct {
	Product string
	Card    string
	Payment string // once it is paid
}

// checkout says what belongs to an order, and how each step is undone.
var checkout = saga.Definition[order]{
	Name: "checkout", Version: 1,
	Kept: []lockkeys.Key{lockkeys.Must("product")}, // what Keep keeps is below this
	Keep: func(o *order, claim *lockkeys.Claim) error {
		key, err := lockkeys.New("product", o.Product)
		claim.Exclusive(key)
		return err
	},
	Steps: []saga.Step[order]{
		{Name: "reserve", DoTx: change(-1), UndoTx: change(+1)}, // in the transaction that records it
		{Name: "pay", Pivot: true, Do: pay},                     // the intent is recorded before it
	},
}

func change(by int) func(context.Context, *sql.Tx, saga.Call, *order) error {
	return func(ctx context.Context, tx *sql.Tx, _ saga.Call, o *order) error {
		_, err := tx.ExecContext(ctx, `UPDATE stock SET pieces = pieces + $1 WHERE product = $2`, by, o.Product)
		return err
	}
}

// pay may be called again, with the same call.Key, by which the bank knows it.
func pay(_ context.Context, call saga.Call, o *order) error {
	if o.Card == "" {
		return dispatcher.Permanent(errors.New("no card")) // refused for good: undo what was done
	}
	o.Payment = "payment of " + call.Key()
	return nil
}

func main() {
	path, ctx := flag.String("db", "shop.db", "database file"), context.Background()
	flag.Parse()
	store, err := sqlite.Open(ctx, *path)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	...
}
