package rabbitmq_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/replay/outbox"
)

// An event as a message, and back.
func ExampleMessage() {
	m := rabbitmq.Message(&ordering.Event{
		Type: "Transferred",
		Positions: []ordering.Position{
			{Stream: lockkeys.Must("client", "42", "account", "7"), Number: 5},
			{Stream: lockkeys.Must("client", "42", "account", "8"), Number: 9},
		},
		Payload: []byte(`{"amount": 100}`),
	})
	fmt.Println(m.Type, m.Headers[ordering.SequenceIDHeader])

	e, err := rabbitmq.EventOf(amqp.Delivery{MessageId: m.MessageId, Type: m.Type, Headers: m.Headers, Body: m.Body})
	fmt.Println(e.Positions, err)
	// Output:
	// Transferred client/42/account/7=5, client/42/account/8=9
	// [client/42/account/7=5 client/42/account/8=9] <nil>
}

// A producer without this package numbers its orders' events, and names the
// order by the routing key.
func ExampleEventOf() {
	e, err := rabbitmq.EventOf(amqp.Delivery{
		Exchange:   "orders",
		RoutingKey: "order/42",
		Headers:    amqp.Table{"X-Sequence-ID": int32(3)},
	})
	fmt.Println(e.Positions, err)
	_, err = rabbitmq.EventOf(amqp.Delivery{MessageId: "m1", Headers: amqp.Table{"X-Sequence-ID": "three"}})
	fmt.Println(err)
	// Output:
	// [order/42=3] <nil>
	// rabbitmq: message "m1": header "X-Sequence-ID": ordering: bad X-Sequence-ID "three": at "three": no '=': write STREAM=NUMBER
}

// All that belongs to one client is in one queue. A transfer between two may
// not be.
func ExamplePartitionOf() {
	const partitions = 16
	account, card := lockkeys.Must("client", "42", "account", "7"), lockkeys.Must("client", "42", "card", "1")
	fmt.Println(rabbitmq.Partition(account, partitions), rabbitmq.Partition(card, partitions))

	_, err := rabbitmq.PartitionOf(&ordering.Event{ID: "t1", Positions: []ordering.Position{
		{Stream: account, Number: 1},
		{Stream: lockkeys.Must("client", "43", "account", "1"), Number: 1},
	}}, partitions)
	fmt.Println(err)
	// Output:
	// 8 8
	// rabbitmq: the event has streams in several partitions: event "t1": client/42/account/7 is in 8 of 16, client/43/account/1 in 4: give the streams their first 2 segments in common, send one event to each, or have one partition
}

// What no partition can have is refused while it can still be refused, by the
// outbox of the transaction that would commit it.
func ExamplePartitions_Check() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection would have a database of its own
	parts := rabbitmq.Partitions{Prefix: "accounts", Count: 16}
	box, err := outbox.New(ctx, db, outbox.SQLite, outbox.Config{Check: parts.Check})
	if err != nil {
		log.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback() // the transfer that could not be told of
	_, err = box.Enqueue(ctx, tx, &ordering.Event{ID: "t1"}, lockkeys.Must("client", "42"), lockkeys.Must("client", "43"))
	fmt.Println(errors.Is(err, rabbitmq.ErrSpansPartitions))
	// Output: true
}

// Many events are on their way at the same time; each is confirmed on its own.
func ExamplePublisher() {
	parts := rabbitmq.Partitions{Prefix: "accounts", Count: 16}
	publisher, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: "amqp://guest:guest@localhost:5672/", Topology: parts.Topology()},
		Route:    parts.Route,
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var confirms sync.WaitGroup
	for n := range 1000 {
		confirms.Add(1)
		publisher.Go(ctx, &ordering.Event{
			Type:      "Deposited",
			Positions: []ordering.Position{{Stream: lockkeys.Must("account", "7"), Number: uint64(n + 1)}},
		}, func(err error) {
			if err != nil {
				log.Print(err) // says which event, and whether it may have arrived
			}
			confirms.Done()
		})
	}
	confirms.Wait()
	if err := publisher.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}

// The relay of an outbox publishes what the service's transactions have
// committed; see package outbox.
func ExamplePublisher_outbox() {
	ctx := context.Background()
	var db *sql.DB // the service's own
	box, err := outbox.New(ctx, db, outbox.PostgreSQL, outbox.Config{})
	if err != nil {
		log.Fatal(err)
	}
	publisher, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{
			URL: "amqp://guest:guest@localhost:5672/",
			Topology: rabbitmq.Topology{
				Exchanges: []rabbitmq.Exchange{{Name: "bank", Kind: "topic"}},
				Queues:    []rabbitmq.Queue{{Name: "ledger", SingleActive: true}},
				Bindings:  []rabbitmq.Binding{{Queue: "ledger", Exchange: "bank", Key: "account.*"}},
			},
		},
		Route: func(e *ordering.Event) (exchange, key string, err error) { return "bank", "account." + e.Type, nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	relay, err := outbox.NewRelay(box, publisher, outbox.RelayConfig{})
	if err != nil {
		log.Fatal(err)
	}
	if err := relay.Run(ctx); err != nil {
		log.Fatal(err)
	}
	if err := publisher.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}
