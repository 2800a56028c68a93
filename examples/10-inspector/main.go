// The inspector: a page that shows which message holds which keys, who waits for whom and
// why, and what is parked; and that lets an operator resume, skip or drop it.
//
//	go run ./examples/10-inspector    # then open http://localhost:8080/interlock/; Ctrl-C ends it
//
// A deposit to account 8 is parked, with others behind it. Resume it there, with any user name
// and the password "secret". health.json, beside the page, is for a machine that watches.
//
// Next: dispatcher/OPERATING.md, what to do at 3 am; and examples/ledger, which has such a page.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/inspect"
	"github.com/interlock-go/interlock/lockkeys"
)

func keys(account string, claim *lockkeys.Claim) error {
	key, err := lockkeys.New("account", account)
	claim.Exclusive(key)
	return err
}

func deposit(ctx context.Context, account string) error {
	if info, _ := dispatcher.InfoFrom(ctx); account == "8" && info.Attempt == 1 {
		return errors.New("the account is frozen")
	}
	time.Sleep(100 * time.Millisecond) // the work
	return nil
}

func main() {
	listen := flag.String("listen", "localhost:8080", "address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	name := func(account string) string { return "deposit to " + account }
	recorder := inspect.NewRecorder(1000, name) // for the timeline
	d, err := dispatcher.New(dispatcher.Config[string]{
		Keys: keys, Handler: deposit, Failure: dispatcher.Park, Name: name, Observer: recorder.Observe,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	password := inspect.Password("secret")
	page, err := inspect.New(inspect.Config{
		Sources:   []inspect.Named{{Name: "deposits", Source: d, Timeline: recorder}},
		Authorize: password.Authorize, // who may act; without it the page is read-only
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/interlock/", http.StripPrefix("/interlock", password.Guard(page))) // who may look
	server := &http.Server{Addr: *listen}
	go func() { log.Print(server.ListenAndServe()); stop() }()
	for i := 0; ctx.Err() == nil; i++ {
		if err := d.Submit(ctx, fmt.Sprint(i%10)); err != nil {
			log.Print(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Println(page.Close(), server.Shutdown(context.Background())) // the server waits for pages that are open
}
