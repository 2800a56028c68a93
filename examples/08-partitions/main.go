// Several processes share the work: each client has its partition, a queue of its own, and
// the broker gives each queue to one process at a time. Start it twice, and end one of the
// two: the other one goes on with its clients, from where it was.
//
//	go run ./examples/08-partitions -db postgres://user:secret@localhost/bank    # Ctrl-C ends it
//
// Next: 09-saga; and examples/convoy, for what to know about scaling out.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"golang.org/x/sync/errgroup"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

var partitions = rabbitmq.Partitions{Prefix: "clients", Count: 4} // the same in all processes

// work consumes a partition, while the broker gives it to this process: each time with a
// sequencer of its own, since another process may have been there in between.
func work(ctx context.Context, broker rabbitmq.Endpoint, store ordering.Store, partition int) error {
	queue := partitions.QueueName(partition)
	begin := func(ctx context.Context) (rabbitmq.Term, error) {
		fmt.Println(queue, "is ours")
		seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
			Store: store, Consumer: ordering.Consumer{Partition: queue}, Owns: partitions.Owns(partition),
			Handler: func(_ context.Context, job ordering.Job[*ordering.Event]) error {
				fmt.Println("visit", job.Event.Name()) // an effect in the database needs postgres.InTx, see 05-events
				return nil
			},
		})
		if err != nil {
			return nil, err
		}
		return rabbitmq.Events(seq), nil
	}
	consumer, err := rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{Endpoint: broker, Queue: queue, Receiver: rabbitmq.Owner(begin)})
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

func main() {
	url, db := flag.String("amqp", "amqp://guest:guest@localhost/", "RabbitMQ"), flag.String("db", "postgres://localhost/bank", "PostgreSQL")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	store, err := postgres.Open(ctx, *db)
	if err != nil {
		log.Fatal(err)
	}
	broker := rabbitmq.Endpoint{URL: *url, Topology: partitions.Topology()}
	group, ctx := errgroup.WithContext(ctx)
	for i := range partitions.Count {
		group.Go(func() error { return work(ctx, broker, store, i) })
	}
	publisher, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{Endpoint: broker, Route: partitions.Route})
	if err != nil {
		log.Fatal(err)
	}
	for n := range uint64(100) { // numbered visits of ten clients; what a second process sends are duplicates
		client := lockkeys.Must("client", fmt.Sprint(n%10))
		event := &ordering.Event{Positions: []ordering.Position{{Stream: client, Number: 1 + n/10}}}
		group.Go(func() error { return publisher.Publish(ctx, event) })
	}
	fmt.Println("ended:", group.Wait(), publisher.Close(), store.Close())
}
