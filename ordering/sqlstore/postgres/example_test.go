package postgres_test

import (
	"context"
	"database/sql"
	"log"
	"os"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

// The handler's own writes and the event's numbers are committed together.
func Example() {
	ctx := context.Background()
	store, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	sequencer, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
		Store: store,
		Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO payments (event, body) VALUES ($1, $2)`, job.Event.Name(), job.Event.Payload)
			return err
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer sequencer.Close()
	// Offer the events of a source.
}
