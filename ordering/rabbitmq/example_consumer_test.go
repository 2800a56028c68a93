package rabbitmq_test

import (
	"context"
	"database/sql"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// A service that applies events of a queue exactly once. When it is told to
// stop it finishes what runs, acknowledges that, and hands the rest back in
// order.
func ExampleConsumer() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	store, err := sqlite.Open(ctx, "bank.db")
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
	consumer, err := rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{
		Endpoint: rabbitmq.Endpoint{
			URL: "amqp://guest:guest@localhost/",
			Topology: rabbitmq.Topology{Queues: []rabbitmq.Queue{
				{Name: "payments", SingleActive: true},
				{Name: "payments.dead"},
			}},
		},
		Queue:      "payments",
		Receiver:   rabbitmq.Events(sequencer),
		DeadLetter: rabbitmq.Address{Key: "payments.dead"},
	})
	if err != nil {
		log.Fatal(err)
	}

	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	select {
	case err = <-ended: // a fault: the receiver's, a message without a place to go, or the topology
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if shutdown := sequencer.Shutdown(grace); shutdown != nil {
		log.Print(shutdown)
	}
	if err == nil {
		err = <-ended
	}
	if err != nil {
		log.Fatal(err)
	}
}
