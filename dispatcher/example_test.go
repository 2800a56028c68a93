package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// Deposits to two accounts of a client, a transfer between them and a credit
// check of the whole client. The handlers are plain code without a lock.
func Example() {
	balance := map[string]*int{"7": new(int), "8": new(int)}
	type message struct {
		keys []string
		do   func()
	}
	d, err := dispatcher.New(dispatcher.Config[message]{
		Keys: func(m message, claim *lockkeys.Claim) error {
			for _, text := range m.keys {
				key, err := lockkeys.Parse(text)
				if err != nil {
					return err
				}
				claim.Exclusive(key)
			}
			return nil
		},
		Handler: func(_ context.Context, m message) error { m.do(); return nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for range 100 { // on both accounts side by side
		_ = d.Submit(ctx, message{[]string{"client/42/account/7"}, func() { *balance["7"] += 2 }})
		_ = d.Submit(ctx, message{[]string{"client/42/account/8"}, func() { *balance["8"] += 1 }})
	}
	_ = d.Submit(ctx, message{[]string{"client/42/account/7", "client/42/account/8"}, func() {
		*balance["7"] -= 50
		*balance["8"] += 50
	}})
	_ = d.Submit(ctx, message{[]string{"client/42"}, func() { // sees all of the above, done
		fmt.Println("credit check:", *balance["7"], "+", *balance["8"])
	}})
	_ = d.Drain(ctx)
	_ = d.Close()
	// Output: credit check: 150 + 150
}

// An Order is a message of the examples: what it is for, and its keys.
type Order struct {
	Name string
	Keys []lockkeys.Key
}

func orderKeys(o Order, claim *lockkeys.Claim) error {
	claim.Exclusive(o.Keys...)
	return nil
}

// example starts a dispatcher with one worker, so that the output is the same
// each time.
func example(cfg dispatcher.Config[Order]) *dispatcher.Dispatcher[Order] {
	cfg.Keys, cfg.Workers = orderKeys, 1
	d, err := dispatcher.New(cfg)
	if err != nil {
		panic(err)
	}
	return d
}

var (
	seven = lockkeys.Must("account", "7")
	eight = lockkeys.Must("account", "8")
)

func ExampleDispatcher_Do() {
	d := example(dispatcher.Config[Order]{
		Handler: func(_ context.Context, o Order) error {
			if o.Name == "withdraw" {
				return errors.New("not enough money")
			}
			return nil
		},
	})
	ctx := context.Background()
	fmt.Println(d.Do(ctx, Order{"deposit", []lockkeys.Key{seven}}))
	fmt.Println(d.Do(ctx, Order{"withdraw", []lockkeys.Key{seven}}))
	_ = d.Close()
	// Output:
	// <nil>
	// dispatcher: message [account/7] failed after 1 attempts: not enough money
}

func ExampleDispatcher_Go() {
	d := example(dispatcher.Config[Order]{
		Handler: func(context.Context, Order) error { return nil },
	})
	ctx := context.Background()
	ticket, err := d.Go(ctx, Order{"deposit", []lockkeys.Key{seven}})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Something else in the meantime, and then:
	fmt.Println(ticket.Wait(ctx))
	_ = d.Close()
	// Output: <nil>
}

// The handler asks somebody else and returns. The account stays closed, and the
// only worker is free, until the answer arrives.
func ExampleHold() {
	answers := make(chan func(error), 1)
	d := example(dispatcher.Config[Order]{
		Handler: func(ctx context.Context, o Order) error {
			fmt.Println(o.Name)
			if o.Name != "ask the bank" {
				return nil
			}
			finish, err := dispatcher.Hold(ctx)
			answers <- finish // to who waits for the bank
			return err
		},
	})
	ctx := context.Background()
	_ = d.Submit(ctx, Order{"ask the bank", []lockkeys.Key{seven}})
	_ = d.Submit(ctx, Order{"deposit to 7", []lockkeys.Key{seven}})
	_ = d.Do(ctx, Order{"deposit to 8", []lockkeys.Key{eight}})
	answer := <-answers
	fmt.Println("the bank answers")
	answer(nil)
	_ = d.Drain(ctx)
	_ = d.Close()
	// Output:
	// ask the bank
	// deposit to 8
	// the bank answers
	// deposit to 7
}

func ExamplePermanent() {
	d := example(dispatcher.Config[Order]{
		MaxAttempts: 5,
		Handler: func(ctx context.Context, o Order) error {
			info, _ := dispatcher.InfoFrom(ctx)
			fmt.Println(o.Name, "attempt", info.Attempt)
			// No further attempt can mend this.
			return dispatcher.Permanent(errors.New("no such account"))
		},
		DeadLetter: func(_ context.Context, o Order, err error) error {
			fmt.Println("dead letter:", o.Name, "-", err)
			return nil
		},
	})
	_ = d.Submit(context.Background(), Order{"deposit", []lockkeys.Key{seven}})
	_ = d.Drain(context.Background())
	_ = d.Close()
	// Output:
	// deposit attempt 1
	// dead letter: deposit - dispatcher: message [account/7] failed after 1 attempts: no such account
}

// The handler finds out only when it has read its account that the order
// concerns another one, too.
func ExampleWiden() {
	d := example(dispatcher.Config[Order]{
		Handler: func() dispatcher.Handler[Order] {
			widened := false
			return func(_ context.Context, o Order) error {
				if !widened {
					widened = true
					fmt.Println(o.Name, "needs", eight, "as well")
					return dispatcher.Widen(lockkeys.Request{Key: eight})
				}
				fmt.Println(o.Name, "done")
				return nil
			}
		}(),
	})
	_ = d.Submit(context.Background(), Order{"close account", []lockkeys.Key{seven}})
	_ = d.Drain(context.Background())
	_ = d.Close()
	// Output:
	// close account needs account/8 as well
	// close account done
}

// A transfer is done with one of its accounts early and lets the others who
// wait for that one go on.
func ExampleRelease() {
	deposited := make(chan struct{})
	d, _ := dispatcher.New(dispatcher.Config[Order]{
		Keys:    orderKeys,
		Workers: 2,
		Handler: func(ctx context.Context, o Order) error {
			if o.Name == "deposit" {
				fmt.Println("deposit")
				close(deposited)
				return nil
			}
			fmt.Println("transfer: money taken from", seven)
			if err := dispatcher.Release(ctx, seven); err != nil {
				return err
			}
			<-deposited // the deposit to the first account need not wait for the rest
			fmt.Println("transfer: money given to", eight)
			return nil
		},
	})
	_ = d.Submit(context.Background(), Order{"transfer", []lockkeys.Key{seven, eight}})
	_ = d.Submit(context.Background(), Order{"deposit", []lockkeys.Key{seven}})
	_ = d.Drain(context.Background())
	_ = d.Close()
	// Output:
	// transfer: money taken from account/7
	// deposit
	// transfer: money given to account/8
}

func ExampleDispatcher_Parked() {
	mended := false
	d := example(dispatcher.Config[Order]{
		Failure: dispatcher.Park,
		Handler: func(_ context.Context, o Order) error {
			if o.Name == "withdraw" && !mended {
				return errors.New("ledger unreachable")
			}
			fmt.Println(o.Name)
			return nil
		},
	})
	ctx := context.Background()
	_ = d.Submit(ctx, Order{"withdraw", []lockkeys.Key{seven}})
	_ = d.Submit(ctx, Order{"close account", []lockkeys.Key{seven}})
	_ = d.Submit(ctx, Order{"deposit elsewhere", []lockkeys.Key{eight}})
	_ = d.Drain(ctx)
	for _, p := range d.Parked() {
		fmt.Printf("parked: %s, %d behind it: %v\n", p.Message.Name, p.Behind, p.Err)
		mended = true
		_ = d.Resume(ctx, p.ID)
	}
	_ = d.Drain(ctx)
	_ = d.Close()
	// Output:
	// deposit elsewhere
	// parked: withdraw, 1 behind it: dispatcher: message [account/7] failed after 1 attempts: ledger unreachable
	// withdraw
	// close account
}

func ExampleDispatcher_SubmitBatch() {
	d := example(dispatcher.Config[Order]{
		Handler: func(_ context.Context, o Order) error { fmt.Println(o.Name); return nil },
	})
	keys := []lockkeys.Key{seven}
	n, err := d.SubmitBatch(context.Background(), []Order{{"open", keys}, {"deposit", keys}, {"withdraw", keys}},
		dispatcher.OnDone(func(o Order, err error) { fmt.Println(o.Name, "ended:", err) }))
	fmt.Println(n, err)
	_ = d.Drain(context.Background())
	_ = d.Close()
	// Unordered output:
	// 3 <nil>
	// open
	// open ended: <nil>
	// deposit
	// deposit ended: <nil>
	// withdraw
	// withdraw ended: <nil>
}

// One transaction serves all the messages of one account that have gathered.
func ExampleConfig_batchHandler() {
	begin := make(chan struct{})
	d := example(dispatcher.Config[Order]{
		Workers: 1, MaxBatch: 10,
		BatchHandler: func(_ context.Context, orders []Order) []error {
			<-begin
			var names []string
			for _, o := range orders {
				names = append(names, o.Name)
			}
			fmt.Println("one transaction:", strings.Join(names, ", "))
			return nil // or dispatcher.FailAll(err, len(orders)) if it was rolled back
		},
	})
	_ = d.Submit(context.Background(), Order{"an order of another account", []lockkeys.Key{lockkeys.MustParse("client/8")}})
	for i := range 3 {
		_ = d.Submit(context.Background(), Order{fmt.Sprint("deposit ", i+1), []lockkeys.Key{seven}})
	}
	close(begin)
	_ = d.Drain(context.Background())
	_ = d.Close()
	// Output:
	// one transaction: an order of another account
	// one transaction: deposit 1, deposit 2, deposit 3
}

// The handlers of messages that wait for each other run in one transaction; each
// message has its own result.
func ExampleTogether() {
	begin := make(chan struct{})
	d := example(dispatcher.Config[Order]{
		Workers: 1, ChainTime: time.Minute,
		Handler: func(_ context.Context, o Order) error {
			<-begin
			fmt.Println(o.Name)
			return nil
		},
		Together: func(ctx context.Context, run func(context.Context) error) error {
			fmt.Println("BEGIN")
			if err := run(ctx); err != nil {
				fmt.Println("ROLLBACK")
				return err
			}
			fmt.Println("COMMIT")
			return nil
		},
	})
	_ = d.Submit(context.Background(), Order{"an order of another account", []lockkeys.Key{lockkeys.MustParse("client/8")}})
	for i := range 3 {
		_ = d.Submit(context.Background(), Order{fmt.Sprint("deposit ", i+1), []lockkeys.Key{seven}})
	}
	close(begin)
	_ = d.Drain(context.Background())
	_ = d.Close()
	// Output:
	// an order of another account
	// BEGIN
	// deposit 1
	// deposit 2
	// deposit 3
	// COMMIT
}

func ExampleDispatcher_Shutdown() {
	d := example(dispatcher.Config[Order]{
		Failure: dispatcher.Park,
		Handler: func(context.Context, Order) error { return errors.New("ledger unreachable") },
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = d.Submit(ctx, Order{"deposit", []lockkeys.Key{seven}})
	_ = d.Submit(ctx, Order{"withdraw", []lockkeys.Key{seven}})
	_ = d.Drain(ctx)
	report, err := d.Shutdown(ctx)
	for _, left := range report.Unfinished { // to be handed back to the source
		fmt.Println(left.Message.Name, left.State)
	}
	fmt.Println(err)
	// Output:
	// deposit parked
	// withdraw waiting
	// <nil>
}
