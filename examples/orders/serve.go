package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/interlock-go/interlock/dispatcher/health"
	"github.com/interlock-go/interlock/dispatcher/inspect"
	"github.com/interlock-go/interlock/dispatcher/telemetry/scrape"
	"github.com/interlock-go/interlock/examples/orders/internal/inventory"
	"github.com/interlock-go/interlock/examples/orders/internal/services"
	"github.com/interlock-go/interlock/examples/orders/internal/shop"
	"github.com/interlock-go/interlock/examples/orders/internal/web"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
)

// expireEvery is the interval of giving expired reservations free.
const expireEvery = 30 * time.Second

// serveShop takes orders over HTTP until ctx ends.
func (o *options) serveShop(ctx context.Context, stderr io.Writer) error {
	s, err := services.Open(ctx, o.Options)
	if err != nil {
		return err
	}
	if err := fill(ctx, s.Inventory, o.stock); err != nil {
		return errors.Join(err, s.Close())
	}
	sh, err := shop.Open(ctx, o.shopDB(), s.Callers, o.isolated, logger(stderr, slog.LevelWarn))
	if err != nil {
		return errors.Join(err, s.Close())
	}
	page, err := inspect.New(inspect.Config{
		Sources: sh.Sources(), Authorize: inspect.Password(o.Token).Authorize, Logger: logger(stderr, slog.LevelWarn)})
	if err != nil {
		return errors.Join(err, sh.Close(), s.Close())
	}
	scraped, err := scrape.Handler(sh.Metrics)
	if err != nil {
		return errors.Join(err, page.Close(), sh.Close(), s.Close())
	}
	monitor, err := watch(sh, stderr)
	if err != nil {
		return errors.Join(err, page.Close(), sh.Close(), s.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/", web.Handler(sh, o.Token))
	mux.Handle("GET /livez", monitor.Live())
	mux.Handle("GET /readyz", monitor.Ready())
	mux.Handle("GET /stalledz", monitor.Stalled())
	mux.Handle("GET /metrics", wire.Guard(scraped, o.Token))
	mux.Handle("/interlock/", http.StripPrefix("/interlock", o.guard(page)))
	stop := expire(ctx, s.Inventory, stderr)
	err = serve(ctx, o.listen, mux, stderr, func() { _ = page.Close() }) // its error comes below
	stop()
	return errors.Join(err, monitor.Close(), page.Close(), sh.Close(), s.Close())
}

// watch watches what the page shows, for those who ask whether the shop works: they are told
// names only, and need no token.
func watch(sh *shop.Shop, stderr io.Writer) (*health.Monitor, error) {
	config := health.Config{Logger: logger(stderr, slog.LevelWarn)}
	for _, s := range sh.Sources() {
		config.Sources = append(config.Sources, health.Source{Name: s.Name, Source: s.Source})
	}
	return health.New(config)
}

// guard asks for the token as the page's password, if there is one. Without one, the page
// is read-only.
func (o *options) guard(page http.Handler) http.Handler {
	if o.Token == "" {
		return page
	}
	return inspect.Password(o.Token).Guard(page)
}

// serveOne serves one of the services until ctx ends.
func (o *options) serveOne(ctx context.Context, stderr io.Writer) error {
	inside := o.Options
	if inside.Transport != services.AMQP {
		inside.Transport = services.Local // it is served here
	}
	s, err := services.Open(ctx, inside)
	if err != nil {
		return err
	}
	if err := fill(ctx, s.Inventory, o.stock); err != nil {
		return errors.Join(err, s.Close())
	}
	stop := expire(ctx, s.Inventory, stderr)
	service := s.Named(o.Only)
	if o.Transport == services.GRPC {
		err = serveGRPC(ctx, o.listen, o.Token, service, stderr)
	} else {
		err = serve(ctx, o.listen, wire.Handler(service.Methods(), o.Token), stderr)
	}
	stop()
	return errors.Join(err, s.Close())
}

// fill puts products into a new inventory, if it is in this process.
func fill(ctx context.Context, in *inventory.Service, each int64) error {
	if in == nil {
		return nil
	}
	products := make([]string, productCount)
	for p := range products {
		products[p] = product(p)
	}
	return in.Fill(ctx, products, each)
}

// expire gives expired reservations free, again and again, until ctx ends or stop is
// called, if the inventory is in this process.
func expire(ctx context.Context, in *inventory.Service, stderr io.Writer) (stop func()) {
	if in == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-time.After(expireEvery):
				if _, err := in.Expire(ctx, now); err != nil && ctx.Err() == nil {
					logger(stderr, slog.LevelWarn).Error("reservations were not expired", "err", err)
				}
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// logger writes what an operator should know from a level on: what services refuse is a
// warning, what cannot go on an error.
func logger(w io.Writer, from slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: from}))
}

// listen listens at an address, of the loopback interface if it names no host.
func listen(ctx context.Context, address, scheme string, stderr io.Writer) (net.Listener, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err == nil {
		fmt.Fprintf(stderr, "listening on %s://%s\n", scheme, listener.Addr())
	}
	return listener, err
}

// serveGRPC serves a service over gRPC until ctx ends.
func serveGRPC(ctx context.Context, address, token string, service services.Service, stderr io.Writer) error {
	listener, err := listen(ctx, address, "grpc", stderr)
	if err != nil {
		return err
	}
	return wire.ServeGRPC(ctx, listener, token, service.Register)
}

// serve serves HTTP until ctx ends. ends are called then, to end what requests may still
// wait for.
func serve(ctx context.Context, address string, handler http.Handler, stderr io.Writer, ends ...func()) error {
	listener, err := listen(ctx, address, "http", stderr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	for _, end := range ends {
		server.RegisterOnShutdown(end)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(finish)
}
