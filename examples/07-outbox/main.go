// An outbox: a payment and the event that tells of it are committed together, in SQLite, and
// the event is sent to RabbitMQ after that, whatever is killed or away in between.
//
//	go run ./examples/07-outbox    # 06-consumer, in another terminal, receives them
//
// Next: 08-partitions, for more than one consumer.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	_ "modernc.org/sqlite"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/replay/outbox"
)

// pay commits a payment, and an event that takes the next number of the account.
func pay(ctx context.Context, db *sql.DB, box *outbox.Outbox, account string, amount int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO payments VALUES (?, ?)`, account, amount); err != nil {
		return err
	}
	event := &ordering.Event{Type: "Paid", Payload: fmt.Append(nil, amount)}
	if _, err := box.Enqueue(ctx, tx, event, lockkeys.Must("account", account)); err != nil {
		return err
	}
	return tx.Commit()
}

func main() {
	url, path := flag.String("amqp", "amqp://guest:guest@localhost/", "RabbitMQ"), flag.String("db", "bank.db", "database file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	db, err := sql.Open("sqlite", "file:"+*path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE IF NOT EXISTS payments (account TEXT, amount INT)`); err != nil {
		log.Fatal(err)
	}
	box, err := outbox.New(ctx, db, outbox.SQLite, outbox.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 10 {
		if err := pay(ctx, db, box, []string{"7", "8"}[i%2], 10*i); err != nil {
			log.Fatal(err)
		}
	}
	publisher, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: *url},
		Route:    func(*ordering.Event) (exchange, key string, err error) { return "", "payments", nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	relay, err := outbox.NewRelay(box, publisher, outbox.RelayConfig{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("10 payments are committed, and their events on the way; Ctrl-C ends it")
	fmt.Println(relay.Run(ctx), publisher.Close(), db.Close(), "confirmed:", relay.Stats().Confirmed)
}
