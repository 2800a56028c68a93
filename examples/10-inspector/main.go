// The inspector and metrics: a page that shows which message holds which keys, who waits for
// whom and why, and what is parked, which an operator can resume there; and Prometheus' /metrics.
//
//	go run ./examples/10-inspector    # then open http://localhost:8080/interlock/; Ctrl-C ends it
//
// A deposit to account 8 is parked, with others behind it. Resume it there, with any user name
// and the password "secret". health.json, beside the page, is for a machine that watches.
//
// Next: dispatcher/OPERATING.md, what to do at 3 am; dispatcher/telemetry/METRICS.md.
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
	"github.com/interlock-go/interlock/dispatcher/telemetry"
	"github.com/interlock-go/interlock/dispatcher/telemetry/scrape"
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
	recorder, metrics := inspect.NewRecorder(1000, name), telemetry.NewMetrics() // the first for the timeline
	d, err := dispatcher.New(dispatcher.Config[string]{
		Keys: keys, Handler: deposit, Failure: dispatcher.Park, Name: name,
		Observer: recorder.Observe, Measure: metrics.Measure("deposits"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	password := inspect.Password("secret")
	page, pageErr := inspect.New(inspect.Config{
		Sources:   []inspect.Named{{Name: "deposits", Source: d, Timeline: recorder}},
		Authorize: password.Authorize, // who may act; without it the page is read-only
	})
	scraped, scrapeErr := scrape.Handler(metrics)
	if err := errors.Join(pageErr, scrapeErr, metrics.Add("deposits", d)); err != nil {
		log.Fatal(err)
	}
	http.Handle("GET /metrics", scraped)
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
