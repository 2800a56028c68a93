package postgres_test

import (
	"context"
	"errors"
	"log"
	"os"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
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
		Store: store, Together: store.Together,
		Handler: postgres.InTx(store, func(ctx context.Context, tx *postgres.Tx, job ordering.Job[*ordering.Event]) error {
			var open bool
			if err := tx.QueryRow(ctx, `SELECT open FROM accounts WHERE name = $1`, job.Event.Type).Scan(&open); err != nil || !open {
				return dispatcher.Permanent(errors.Join(errors.New("there is no such account"), err))
			}
			tx.Queue(`INSERT INTO payments (event, body) VALUES ($1, $2)`, job.Event.Name(), job.Event.Payload) // sent with the COMMIT
			return nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer sequencer.Close()
	// Offer the events of a source.
}
