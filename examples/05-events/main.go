// Numbered events on PostgreSQL: a producer has numbered each transfer on both accounts. All
// come twice, in any order; each is applied once, by its numbers, also if you start it again.
//
//	go run ./examples/05-events -db postgres://user:secret@localhost/bank
//
// Next: 06-consumer, where events come from RabbitMQ.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"strconv"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

// events is what the producer made: 100 transfers, numbered on both of their accounts.
func events() (list []*ordering.Event) {
	accounts, last := []string{"a", "b", "c"}, map[string]uint64{}
	for i := range 100 {
		e := &ordering.Event{Payload: strconv.AppendInt(nil, int64(i), 10)}
		for _, account := range []string{accounts[i%3], accounts[(i+1)%3]} { // from, to
			last[account]++
			e.Positions = append(e.Positions, ordering.Position{Stream: lockkeys.Must("account", account), Number: last[account]})
		}
		list = append(list, e)
	}
	return list
}

// apply is the handler. What it does is committed together with the numbers of the event,
// which are its lock keys too: nobody else is on these two accounts meanwhile.
func apply(_ context.Context, tx *postgres.Tx, job ordering.Job[*ordering.Event]) error {
	amount, err := strconv.Atoi(string(job.Event.Payload))
	if err != nil {
		return dispatcher.Permanent(err) // trying again is no use: park the two accounts
	}
	for i, sign := range []int{-1, +1} {
		tx.Queue(`INSERT INTO accounts VALUES ($1, $2, 1) ON CONFLICT (name) DO UPDATE SET balance = accounts.balance
			+ excluded.balance, transfers = accounts.transfers + 1`, job.Event.Positions[i].Stream.String(), sign*amount)
	}
	return nil // what was queued is sent with the COMMIT
}

func main() {
	ctx, url := context.Background(), flag.String("db", "postgres://localhost/bank", "PostgreSQL database")
	flag.Parse()
	store, err := postgres.Open(ctx, *url)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	err = store.Migrate(ctx, "bank", []string{`CREATE TABLE accounts (name TEXT PRIMARY KEY, balance INT, transfers INT)`})
	if err != nil {
		log.Fatal(err)
	}
	seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{Store: store, Handler: postgres.InTx(store, apply), Together: store.Together})
	if err != nil {
		log.Fatal(err)
	}
	defer seq.Close()
	list := append(events(), events()...) // each comes twice
	for _, i := range rand.Perm(len(list)) {
		if err := seq.Offer(ctx, list[i], nil); err != nil {
			log.Fatal(err)
		}
	}
	var transfers, total int
	if err = seq.Drain(ctx); err == nil {
		err = store.DB().QueryRow(`SELECT sum(transfers) / 2, sum(balance) FROM accounts`).Scan(&transfers, &total)
	}
	fmt.Println(transfers, "transfers; all accounts together have", total, err)
}
