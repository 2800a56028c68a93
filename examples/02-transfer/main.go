// Several keys for a message: a transfer needs two accounts, and a credit check needs a
// client with all its accounts. A check never sees a transfer half done; transfers between
// other accounts go on beside it; nothing can deadlock, and there is no mutex.
//
//	go run ./examples/02-transfer
//
// The test beside it runs the same handler in a hundred orders, and fails if a message
// touches an account that it has not declared.
//
// Next: 03-retries, for handlers that fail.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// message is a transfer, or a credit check if credit is set.
type message struct {
	from, to lockkeys.Key
	amount   int

	client lockkeys.Key
	credit *int // where the result goes
}

func keys(m message, claim *lockkeys.Claim) error {
	if m.credit != nil {
		claim.Shared(m.client) // with all below it, and beside others who only read
	} else {
		claim.Exclusive(m.from, m.to)
	}
	return nil
}

type bank map[lockkeys.Key]*int // the balance of each account

// balance is for reading (Shared) or changing (Exclusive).
func (b bank) balance(ctx context.Context, account lockkeys.Key, mode lockkeys.Mode) *int {
	dispatcher.Touch(ctx, account, mode) // in tests: is it declared? In production: nothing
	return b[account]
}

func (b bank) handle(ctx context.Context, m message) error {
	if m.credit == nil {
		*b.balance(ctx, m.from, lockkeys.Exclusive) -= m.amount
		*b.balance(ctx, m.to, lockkeys.Exclusive) += m.amount
		return nil
	}
	for account := range b {
		if m.client.Contains(account) {
			*m.credit += *b.balance(ctx, account, lockkeys.Shared)
		}
	}
	return nil
}

func main() {
	client := lockkeys.Must("client", "42") // Must is for constants; New returns an error
	seven, eight := lockkeys.Must("client", "42", "account", "7"), lockkeys.Must("client", "42", "account", "8")
	b := bank{seven: new(1000), eight: new(500)}
	d, err := dispatcher.New(dispatcher.Config[message]{Keys: keys, Handler: b.handle})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	for i := range 10 {
		_ = d.Submit(context.Background(), message{from: seven, to: eight, amount: 10 * i})
		credit := 0
		if err := d.Do(context.Background(), message{client: client, credit: &credit}); err != nil {
			log.Fatal(err)
		}
		fmt.Println("credit of", client, "is", credit)
	}
}
