// A consumer of RabbitMQ that applies each event once, in the order of its numbers: a
// message is acknowledged when its effect is durable, in SQLite. What cannot be read goes
// to the queue payments.dead. When it is told to stop it finishes what runs.
//
//	go run ./examples/06-consumer       # ends with Ctrl-C
//	go run ./examples/07-outbox         # in another terminal: sends it payments
//
// Next: 07-outbox, the other side.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// apply is the handler. What it does is committed together with the event's numbers.
func apply(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO payments VALUES ($1, $2)`, job.Event.Name(), string(job.Event.Payload))
	fmt.Println("received", job.Event.Name(), "of", string(job.Event.Payload))
	return err
}

func main() {
	url := flag.String("amqp", "amqp://guest:guest@localhost/", "RabbitMQ")
	path := flag.String("db", "payments.db", "database file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	store, err := sqlite.Open(ctx, *path)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx, "payments", []string{`CREATE TABLE payments (event TEXT, amount TEXT)`}); err != nil {
		log.Fatal(err)
	}
	seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{Store: store, Handler: sqlstore.InTx(store, apply)})
	if err != nil {
		log.Fatal(err)
	}
	defer seq.Close()
	queues := []rabbitmq.Queue{{Name: "payments", SingleActive: true}, {Name: "payments.dead"}}
	consumer, err := rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{
		Endpoint:   rabbitmq.Endpoint{URL: *url, Topology: rabbitmq.Topology{Queues: queues}},
		Queue:      "payments",
		Receiver:   rabbitmq.Events(seq),
		DeadLetter: rabbitmq.Address{Key: "payments.dead"},
	})
	if err != nil {
		log.Fatal(err)
	}
	context.AfterFunc(ctx, func() { // let what runs end, while the consumer still acknowledges it
		grace, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := seq.Shutdown(grace); err != nil {
			log.Print(err) // what did not end comes again
		}
	})
	if err := consumer.Run(ctx); err != nil { // else after Ctrl-C, when all is acknowledged
		log.Fatal(err)
	}
}
