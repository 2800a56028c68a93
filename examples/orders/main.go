// Orders is a shop on Interlock: orders, payments, inventory and shipping, held together
// by a saga whose resources are isolated by lock keys, with an event log and read models
// made of it. See README.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/interlock-go/interlock/examples/orders/internal/services"
	"github.com/interlock-go/interlock/examples/orders/internal/shop"
)

// Exit codes.
const (
	exitGood  = 0 // every saga has ended, and every invariant held
	exitBad   = 1 // something did not
	exitUsage = 2 // the command line is wrong
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends the program at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options is the command line.
type options struct {
	services.Options
	db       string
	orders   int
	seed     uint64
	isolated bool
	listen   string
	stock    int64
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("orders", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.orders, "orders", 3000, "how many made-up `orders` to place")
	f.Uint64Var(&o.seed, "seed", 1, "the `seed` of the made-up orders")
	f.StringVar(&o.Dir, "dir", "", "the `folder` of the databases; default: a temporary one, which is removed")
	f.StringVar(&o.db, "db", "", "the `URL` of a PostgreSQL database for the shop; default: SQLite, shop.db in the folder of -dir. Services of this process are in that folder either way")
	f.Float64Var(&o.Unreliable, "unreliable", 0.1, "the `share` of the gateway's calls that fail without an answer")
	f.BoolVar(&o.isolated, "isolated", true, "whether a checkout keeps the keys of its order and customer")
	f.StringVar(&o.Transport, "transport", services.Local, "how services of this process are called: `local`, http or grpc, on ports of the loopback interface, or amqp, by queues of -broker")
	f.StringVar(&o.Broker, "broker", "", "the `URL` of a RabbitMQ broker, for -transport amqp")
	f.StringVar(&o.listen, "listen", "", "serve orders at this `address` instead of making some up")
	f.StringVar(&o.Token, "token", "", "the bearer `token` that requests need, and that is sent to services")
	f.Int64Var(&o.stock, "stock", 1000, "how many of each product, product-00 to product-19, a new inventory has when it is served")
	f.StringVar(&o.Only, "service", "", "be one of the services, payment, inventory or shipping, at -listen, over HTTP, or gRPC with -transport grpc; with -transport amqp by its queue as well")
	f.StringVar(&o.Payment, "payment", "", "the `URL` of the payment service, http://, grpc:// or amqp://; default: in this process")
	f.StringVar(&o.Inventory, "inventory", "", "the `URL` of the inventory service, http://, grpc:// or amqp://; default: in this process")
	f.StringVar(&o.Shipping, "shipping", "", "the `URL` of the shipping service, http://, grpc:// or amqp://; default: in this process")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	var problems []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	add(f.NArg() > 0, "%q is too much: there are flags only", f.Args())
	add(o.orders < 0, "-orders is %d: it must not be negative", o.orders)
	add(o.stock < 0, "-stock is %d: it must not be negative", o.stock)
	add(o.Unreliable < 0 || o.Unreliable > 0.9, "-unreliable is %v: it must be from 0 to 0.9", o.Unreliable)
	add(!slices.Contains(services.Transports, o.Transport), "-transport is %q: it must be one of %q", o.Transport, services.Transports)
	add(o.db != "" && !shop.IsPostgres(o.db), "-db must be a URL of PostgreSQL, postgres://…")
	add((o.Transport == services.AMQP) != (o.Broker != ""), "-transport amqp and -broker need each other")
	add(o.Only != "" && o.listen == "", "-service needs -listen, the address to serve at")
	add(o.Only != "" && o.Payment+o.Inventory+o.Shipping != "", "-service calls no other: leave out the URLs")
	switch o.Only {
	case "", "payment", "inventory", "shipping":
	default:
		add(true, "-service is %q: it must be payment, inventory or shipping", o.Only)
	}
	return o, errors.Join(problems...)
}

// shopDB is the database of the shop.
func (o *options) shopDB() string { return cmp.Or(o.db, filepath.Join(o.Dir, "shop.db")) }

// run is the program, with all that it reads and writes given to it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitGood
	case err != nil:
		fmt.Fprintln(stderr, "orders:", err)
		return exitUsage
	}
	good, err := o.act(ctx, stdout, stderr)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "orders:", err)
		return exitBad
	case !good:
		return exitBad
	}
	return exitGood
}

func (o *options) act(ctx context.Context, stdout, stderr io.Writer) (good bool, err error) {
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "orders"); err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	}
	switch {
	case o.Only != "":
		return true, o.serveOne(ctx, stderr)
	case o.listen != "":
		return true, o.serveShop(ctx, stderr)
	}
	return o.simulate(ctx, stdout, stderr)
}
