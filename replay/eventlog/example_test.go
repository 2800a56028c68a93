package eventlog_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/eventlog"
)

// An order is a stream of events. Its state is read from them to decide; a read model
// of all orders is made of them by a subscription.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "eventlog")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "orders.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx, "orders", []string{`CREATE TABLE totals (status TEXT PRIMARY KEY, orders INTEGER)`}); err != nil {
		log.Fatal(err)
	}
	events, err := eventlog.New(ctx, store.DB(), eventlog.SQLite, eventlog.Config{})
	if err != nil {
		log.Fatal(err)
	}

	// What an order is, made of its events.
	orders := eventlog.Aggregate[string]{Log: events, Name: "order",
		Apply: func(status string, e *ordering.Event) (string, error) { return e.Type, nil }}

	// How many orders have come to which status: written with the checkpoint of the
	// subscription, in one transaction.
	totals, err := eventlog.Subscribe(ctx, events, eventlog.SubscriptionConfig{
		Name: "totals/1", Store: store,
		Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[eventlog.Entry]) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO totals VALUES (?, 1) ON CONFLICT (status) DO UPDATE SET orders = orders + 1`,
				job.Value.Event.Type)
			return err
		}),
		// Orders are counted together, so the entries are handled one after the other.
		Keys: func(job ordering.Job[eventlog.Entry], claim *lockkeys.Claim) error {
			claim.Exclusive(lockkeys.Must("totals"))
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer totals.Close()

	// change decides on the state of an order, and appends on condition that it is
	// still the latest.
	change := func(id, from, to string) (at ordering.Position, err error) {
		order, err := orders.Load(ctx, lockkeys.Must("order", id))
		if err != nil {
			return at, err
		}
		if order.Value != from {
			return at, fmt.Errorf("order %s is %q, not %q", id, order.Value, from)
		}
		payload, err := json.Marshal(map[string]string{"order": id})
		if err != nil {
			return at, err
		}
		e := &ordering.Event{Type: to, Payload: payload, Positions: []ordering.Position{{Stream: lockkeys.Must("order", id)}}}
		err = store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			appended, err := events.Append(ctx, tx, []*ordering.Event{e}, order.Version)
			if err == nil {
				at = appended.Entries[0].At
			}
			return err
		})
		events.Notify()
		if errors.Is(err, eventlog.ErrVersion) {
			return at, errors.New("somebody else has changed the order: read and decide again")
		}
		return at, err
	}

	var last ordering.Position
	for _, c := range [][3]string{{"1", "", "placed"}, {"2", "", "placed"}, {"1", "placed", "paid"}, {"2", "paid", "shipped"}} {
		at, err := change(c[0], c[1], c[2])
		if err != nil {
			fmt.Println("refused:", err)
			continue
		}
		last = at
	}
	if err := totals.Wait(ctx, last); err != nil { // to read our own write
		log.Fatal(err)
	}
	for _, status := range []string{"placed", "paid"} {
		var n int
		if err := store.DB().QueryRow(`SELECT orders FROM totals WHERE status = ?`, status).Scan(&n); err != nil {
			log.Fatal(err)
		}
		fmt.Println(status, n)
	}
	for entry, err := range events.Read(ctx, eventlog.Query{Stream: lockkeys.Must("order", "1")}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(entry.At, entry.Event.Positions[0], entry.Event.Type)
	}
	// Output:
	// refused: order 2 is "placed", not "paid"
	// placed 2
	// paid 1
	// log/0=1 order/1=1 placed
	// log/0=3 order/1=2 paid
}
