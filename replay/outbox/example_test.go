package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/outbox"
)

// A deposit and the event that tells of it are committed together; the relay
// sends the event.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "outbox")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "bank.db")+
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`CREATE TABLE deposits (account TEXT, amount INTEGER)`); err != nil {
		log.Fatal(err)
	}
	box, err := outbox.New(ctx, db, outbox.SQLite, outbox.Config{})
	if err != nil {
		log.Fatal(err)
	}

	// The publisher sends to a broker, say, and waits for its confirmation.
	arrived := make(chan *ordering.Event)
	publisher := outbox.PublisherFunc(func(ctx context.Context, e *ordering.Event) error {
		arrived <- e
		return nil
	})
	relay, err := outbox.NewRelay(box, publisher, outbox.RelayConfig{})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- relay.Run(ctx) }()

	deposit := func(account string, amount int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, `INSERT INTO deposits VALUES (?, ?)`, account, amount); err != nil {
			return err
		}
		event := &ordering.Event{Type: "Deposited", Payload: fmt.Append(nil, amount)}
		if _, err := box.Enqueue(ctx, tx, event, lockkeys.Must("account", account)); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		box.Notify()
		return nil
	}
	for _, amount := range []int{10, 20, 30} {
		if err := deposit("7", amount); err != nil {
			log.Fatal(err)
		}
	}
	for range 3 {
		e := <-arrived
		fmt.Printf("%s %s: %s\n", ordering.FormatSequenceID(e.Positions), e.Type, e.Payload)
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// account/7=1 Deposited: 10
	// account/7=2 Deposited: 20
	// account/7=3 Deposited: 30
	// <nil>
}

// A sequencer on the other side asks the outbox for events that got lost.
// Through package httpreplay it may do so from another machine.
func ExampleOutbox_Fetch() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection would have a database of its own
	box, err := outbox.New(ctx, db, outbox.SQLite, outbox.Config{})
	if err != nil {
		log.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	stream := lockkeys.Must("order", "42")
	for _, step := range []string{"placed", "paid", "shipped"} {
		last := ordering.Position{Stream: stream, End: step == "shipped"}
		if _, err := box.Enqueue(ctx, tx, &ordering.Event{Type: step, Positions: []ordering.Position{last}}); err != nil {
			log.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}

	replayer, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "outbox", Source: box}}})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := replayer.Replay(ctx, ordering.Range{Stream: stream, From: 2, To: 5}, func(_ context.Context, events []*ordering.Event) error {
		for _, e := range events {
			fmt.Println(e.Positions[0], e.Type)
		}
		return nil
	})
	fmt.Println("never existed:", answer.NoSuch, err)
	// Output:
	// order/42=2 paid
	// order/42=3;end shipped
	// never existed: [order/42: 4 to 5] <nil>
}

// A transfer between two clients would be in two partitions of the broker: it
// is refused before it is committed, and the transaction can do otherwise.
func ExampleConfig() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)                                   // each connection would have a database of its own
	parts := rabbitmq.Partitions{Prefix: "bank", Count: 16} // as the relay's publisher has them
	box, err := outbox.New(ctx, db, outbox.SQLite, outbox.Config{Check: parts.Check})
	if err != nil {
		log.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	from, to := lockkeys.Must("client", "42"), lockkeys.Must("client", "43")
	_, err = box.Enqueue(ctx, tx, &ordering.Event{Type: "Transfer"}, from, to)
	if errors.Is(err, rabbitmq.ErrSpansPartitions) { // one event to each
		if _, err = box.Enqueue(ctx, tx, &ordering.Event{ID: "t1-from", CorrelationID: "t1"}, from); err == nil {
			_, err = box.Enqueue(ctx, tx, &ordering.Event{ID: "t1-to", CorrelationID: "t1"}, to)
		}
	}
	if err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	stats, err := box.Stats(ctx)
	fmt.Println(stats.Unsent, err)
	// Output: 2 <nil>
}

// The broker refuses an event for good. Its stream waits until an operator, in
// this process or another one, gives the event up.
func ExampleOutbox_Skip() {
	ctx, cancel := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "outbox")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	box, err := outbox.New(ctx, db, outbox.SQLite, outbox.Config{})
	if err != nil {
		log.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	stream := lockkeys.Must("order", "42")
	for _, step := range []string{"placed", "scanned", "shipped"} {
		event := &ordering.Event{ID: step, Payload: make([]byte, 500)}
		if step == "scanned" {
			event.Payload = make([]byte, 5000)
		}
		if _, err := box.Enqueue(ctx, tx, event, stream); err != nil {
			log.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}

	arrived := make(chan *ordering.Event)
	publisher := outbox.PublisherFunc(func(ctx context.Context, e *ordering.Event) error {
		if n := len(e.Payload); n > 1000 {
			return dispatcher.Permanent(fmt.Errorf("%d bytes are more than the broker takes", n))
		}
		arrived <- e
		return nil
	})
	relay, err := outbox.NewRelay(box, publisher, outbox.RelayConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- relay.Run(ctx) }()

	fmt.Println("sent:", (<-arrived).ID)
	list := []outbox.Parked{}
	for len(list) == 0 { // an operator would look now and then
		if list, err = box.Parked(ctx); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("parked: %s, %v: %s\n", list[0].Event, list[0].Positions, list[0].Error)
	if err := box.Skip(ctx, list[0].Event); err != nil {
		log.Fatal(err)
	}
	fmt.Println("sent:", (<-arrived).ID)
	answer, err := box.Fetch(ctx, ordering.Range{Stream: stream, From: 2, To: 2})
	fmt.Println("never existed:", answer.NoSuch, err)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// sent: placed
	// parked: scanned, [order/42=2]: 5000 bytes are more than the broker takes
	// sent: shipped
	// never existed: [order/42: 2] <nil>
	// <nil>
}
