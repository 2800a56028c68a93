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

	"github.com/interlock-go/interlock/examples/orders/internal/inventory"
	"github.com/interlock-go/interlock/examples/orders/internal/shop"
	"github.com/interlock-go/interlock/examples/orders/internal/web"
)

// expireEvery is the interval of giving expired reservations free.
const expireEvery = 30 * time.Second

// serveShop takes orders over HTTP until ctx ends.
func (o *options) serveShop(ctx context.Context, stderr io.Writer) error {
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	if err := s.fill(ctx, o.stock); err != nil {
		return errors.Join(err, s.Close())
	}
	sh, err := shop.Open(ctx, o.dir, s.callers, o.isolated, logger(stderr, slog.LevelWarn))
	if err != nil {
		return errors.Join(err, s.Close())
	}
	expiring, stop := context.WithCancel(ctx)
	expired := make(chan struct{})
	go func() {
		defer close(expired)
		if s.inventory != nil {
			s.expire(expiring, stderr)
		}
	}()
	err = serve(ctx, o.listen, web.Handler(sh, o.token), stderr)
	stop()
	<-expired
	return errors.Join(err, sh.Close(), s.Close())
}

// fill puts products into a new inventory of this process.
func (s *services) fill(ctx context.Context, each int64) error {
	if s.inventory == nil {
		return nil
	}
	c, err := s.inventory.Counts(ctx)
	if err != nil || c != (inventory.Counts{}) {
		return err
	}
	for p := range productCount {
		if err := s.inventory.Stock(ctx, product(p), each); err != nil {
			return err
		}
	}
	return nil
}

// expire gives expired reservations free, again and again.
func (s *services) expire(ctx context.Context, stderr io.Writer) {
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-time.After(expireEvery):
			if _, err := s.inventory.Expire(ctx, now); err != nil && ctx.Err() == nil {
				logger(stderr, slog.LevelWarn).Error("reservations were not expired", "err", err)
			}
		}
	}
}

// serve serves HTTP at an address, of the loopback interface if it names no host.
func serve(ctx context.Context, address string, handler http.Handler, stderr io.Writer) error {
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "listening on http://%s\n", listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
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
