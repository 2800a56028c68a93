// Keys and a dispatcher: deposits to two accounts run side by side, those to one account
// one after the other, in order. Their handler is plain code, without a lock.
//
// This is also the quick start of the README.
//
//	go run ./examples/01-dispatcher
//
// Next: 02-transfer, with several keys for a message.
package main

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

type deposit struct {
	client, account string
	amount          int
}

func main() {
	balances := map[string]*int{"7": new(int), "8": new(int)}
	d, err := dispatcher.New(dispatcher.Config[deposit]{
		Keys: func(m deposit, claim *lockkeys.Claim) error {
			key, err := lockkeys.New("client", m.client, "account", m.account)
			claim.Exclusive(key)
			return err
		},
		Handler: func(ctx context.Context, m deposit) error {
			*balances[m.account] += m.amount // no lock: nobody else has this account now
			return nil
		},
	})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	for i := range 1000 {
		_ = d.Submit(ctx, deposit{"42", []string{"7", "8"}[i%2], i}) // fails only once closed
	}
	fmt.Println(d.Drain(ctx), d.Close(), *balances["7"], *balances["8"])
}
