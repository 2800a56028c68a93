package sqlstore_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// payment is what the events of the example say.
type payment struct {
	Account string
	Amount  int
}

func decode(e *ordering.Event) (p payment, err error) {
	err = json.Unmarshal(e.Payload, &p)
	return p, err
}

func account(name string) lockkeys.Key { return lockkeys.Must("account", name) }

// Numbered events and a command, each applied once, on one balance.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "bank")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "bank.db")

	store, err := sqlite.Open(ctx, path) // or postgres.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx, "bank", []string{`CREATE TABLE balance (account TEXT PRIMARY KEY, amount INT NOT NULL)`}); err != nil {
		log.Fatal(err)
	}
	seq, err := ordering.New(ctx, ordering.Config[payment]{
		Store:  store,
		Decode: decode, // func(e *ordering.Event) (payment, error), once for each event
		Keys: func(job ordering.Job[payment], claim *lockkeys.Claim) error {
			claim.Exclusive(account(job.Value.Account))
			return nil
		},
		// What it writes is committed together with the event's numbers.
		Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[payment]) error {
			p := job.Value
			job.Reply(fmt.Appendf(nil, "%+d for %s", p.Amount, p.Account))
			_, err := tx.ExecContext(ctx, `INSERT INTO balance VALUES ($1, $2)
				ON CONFLICT (account) DO UPDATE SET amount = amount + excluded.amount`, p.Account, p.Amount)
			return err
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer seq.Close()

	event := &ordering.Event{
		Positions: []ordering.Position{{Stream: account("7"), Number: 1}},
		Payload:   []byte(`{"Account": "7", "Amount": 100}`),
	}
	acknowledge := func(e *ordering.Event) { fmt.Println("applied", e.Name()) }
	err = seq.Offer(ctx, event, func(e *ordering.Event, o ordering.Outcome) {
		if o.Ack() { // it is durable
			acknowledge(e)
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := seq.Drain(ctx); err != nil {
		log.Fatal(err)
	}

	request := &ordering.Event{ID: "3f1c", Payload: []byte(`{"Account": "7", "Amount": -30}`)}
	for range 2 { // the client has not got the answer, and asks again
		outcome, err := seq.Do(ctx, request)
		fmt.Println(string(outcome.Reply), err)
	}

	var amount int
	err = seq.Read(ctx, func(claim *lockkeys.Claim) { claim.Shared(account("7")) }, func(ctx context.Context) error {
		return store.DB().QueryRowContext(ctx, `SELECT amount FROM balance WHERE account = '7'`).Scan(&amount)
	})
	fmt.Println(amount, err)
	// Output:
	// applied account/7=1
	// -30 for 7 <nil>
	// -30 for 7 <nil>
	// 70 <nil>
}
