package saga_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/saga"
)

// Checkout is the state of a saga.
type Checkout struct {
	Product string
	Card    string
	Payment string // set by the step that pays
}

// A product is reserved, and paid elsewhere. The second card is refused, so the
// reservation is undone.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "saga")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.OpenBeside(ctx, filepath.Join(dir, "shop.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx, "shop", []string{`CREATE TABLE stock (product TEXT PRIMARY KEY, pieces INT); INSERT INTO stock VALUES ('chair', 10)`}); err != nil {
		log.Fatal(err)
	}
	change := func(by int) func(ctx context.Context, tx *sql.Tx, call saga.Call, s *Checkout) error {
		return func(ctx context.Context, tx *sql.Tx, _ saga.Call, s *Checkout) error {
			_, err := tx.ExecContext(ctx, `UPDATE stock SET pieces = pieces + $1 WHERE product = $2`, by, s.Product)
			return err
		}
	}
	c, err := saga.New(ctx, saga.Config{Store: store}, saga.Register(saga.Definition[Checkout]{
		Name: "checkout", Version: 1, Timeout: time.Minute,
		Kept: []lockkeys.Key{lockkeys.Must("product")},
		Keep: func(s *Checkout, claim *lockkeys.Claim) error {
			key, err := lockkeys.New("product", s.Product)
			claim.Exclusive(key)
			return err
		},
		Steps: []saga.Step[Checkout]{
			{Name: "reserve", DoTx: change(-1), UndoTx: change(+1)},
			{Name: "pay", Pivot: true, Do: func(_ context.Context, call saga.Call, s *Checkout) error {
				if s.Card == "" { // the service has an answer for each key, call.Key()
					return dispatcher.Permanent(errors.New("no card"))
				}
				s.Payment = "payment for " + call.Saga
				return nil
			}},
		},
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for id, s := range map[string]Checkout{"1": {Product: "chair", Card: "4000"}, "2": {Product: "chair"}} {
		if err := store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error { return c.Start(ctx, tx, id, s) }); err != nil {
			log.Fatal(err)
		}
	}
	c.Notify()
	for _, id := range []string{"1", "2"} {
		run, err := c.Run(ctx, id)
		for ; err == nil && !run.Status.Ended(); run, err = c.Run(ctx, id) {
			time.Sleep(time.Millisecond)
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %v %q\n", id, run.Status, run.Cause)
	}
	var pieces int
	err = store.DB().QueryRow(`SELECT pieces FROM stock`).Scan(&pieces)
	fmt.Println(pieces, "chairs left", err)
	// Output:
	// 1 completed ""
	// 2 compensated "step pay: no card"
	// 9 chairs left <nil>
}
