// Handlers that fail: what may work later is tried again, with a pause that grows; what
// cannot is parked, with its account closed behind it, until an operator decides. All else
// goes on meanwhile.
//
//	go run ./examples/03-retries
//
// Next: 04-commands, which survives the end of the process; dispatcher/OPERATING.md says
// what to do about parked messages at 3 am.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

type payment struct {
	account string
	amount  int
}

func keys(p payment, claim *lockkeys.Claim) error {
	key, err := lockkeys.New("account", p.account)
	claim.Exclusive(key)
	return err
}

var frozen atomic.Bool // account 8

func pay(ctx context.Context, p payment) error {
	info, _ := dispatcher.InfoFrom(ctx)
	switch {
	case p.account == "7" && info.Attempt < 3:
		fmt.Println("account 7: no answer, attempt", info.Attempt)
		return errors.New("the bank does not answer")
	case p.account == "8" && frozen.Load():
		return dispatcher.Permanent(errors.New("the account is frozen")) // trying again is no use
	}
	fmt.Println("account", p.account, "got", p.amount, "in attempt", info.Attempt)
	return nil
}

func main() {
	frozen.Store(true)
	d, err := dispatcher.New(dispatcher.Config[payment]{
		Keys:        keys,
		Handler:     pay,
		Name:        func(p payment) string { return fmt.Sprint("payment of ", p.amount) },
		MaxAttempts: 5,
		Backoff:     dispatcher.Backoff{Initial: 10 * time.Millisecond},
		Failure:     dispatcher.Park, // the default is DeadLetter, which goes on without it
	})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	ctx := context.Background()
	for _, p := range []payment{{"7", 10}, {"8", 20}, {"8", 30}, {"9", 40}} {
		if err := d.Submit(ctx, p); err != nil {
			log.Fatal(err)
		}
	}
	_ = d.Drain(ctx) // waits for all that is not parked, or behind it
	frozen.Store(false)
	operator := dispatcher.WithOperator(ctx, "ann", "the account is open again")
	for _, p := range d.Parked() {
		fmt.Println("parked:", p.Name, "with", p.Behind, "behind it:", p.Err)
		if err := d.Resume(operator, p.ID); err != nil { // or Skip: the payment alone; or Drop: all behind it too
			log.Fatal(err)
		}
	}
	_ = d.Drain(ctx)
}
