// Commands over HTTP with an idempotency key: a deposit that is sent again is not made again and
// gets the same answer, also after a kill. Effect, key and answer are committed as one, in SQLite.
//
//	go run ./examples/04-commands
//	curl -H 'Idempotency-Key: k1' -d '{"Account": "7", "Amount": 10}' localhost:8080
//
// Next: 05-events, for messages that their producer has numbered.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

type deposit struct {
	Account string
	Amount  int
}

func apply(ctx context.Context, tx *sql.Tx, job ordering.Job[deposit]) error {
	var balance int
	err := tx.QueryRowContext(ctx, `INSERT INTO accounts VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET
		balance = balance + excluded.balance RETURNING balance`, job.Value.Account, job.Value.Amount).Scan(&balance)
	job.Reply(fmt.Appendln(nil, "balance", balance))
	return err
}

func main() {
	listen, path := flag.String("listen", "localhost:8080", "address"), flag.String("db", "bank.db", "database file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	store, err := sqlite.Open(ctx, *path)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx, "bank", []string{`CREATE TABLE accounts (name TEXT PRIMARY KEY, balance INT)`}); err != nil {
		log.Fatal(err)
	}
	commands, err := ordering.New(ctx, ordering.Config[deposit]{
		Store: store, Handler: sqlstore.InTx(store, apply),
		Decode: func(e *ordering.Event) (d deposit, err error) { err = json.Unmarshal(e.Payload, &d); return d, err },
		Keys: func(job ordering.Job[deposit], claim *lockkeys.Claim) error {
			key, err := lockkeys.New("account", job.Value.Account)
			claim.Exclusive(key)
			return err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer commands.Close()
	server := &http.Server{Addr: *listen, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<10)) // what is cut off cannot be decoded
		if outcome, err := commands.Do(r.Context(), &ordering.Event{ID: r.Header.Get("Idempotency-Key"), Payload: body}); err == nil {
			_, _ = w.Write(outcome.Reply)
		} else if commands.Err() == nil { // the sender's: a store that is away is waited for
			http.Error(w, err.Error(), http.StatusBadRequest)
		} else { // the service has ended, and it may be done: it can be sent again
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})}
	go func() { log.Print(server.ListenAndServe()); stop() }()
	<-ctx.Done()
	_ = server.Shutdown(context.Background()) // answers what is under way
}
