package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"time"

	"github.com/interlock-go/interlock/examples/orders/internal/checkout"
	"github.com/interlock-go/interlock/examples/orders/internal/inventory"
	"github.com/interlock-go/interlock/examples/orders/internal/payment"
	"github.com/interlock-go/interlock/examples/orders/internal/shipping"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// reservationTime is after which an unconfirmed reservation expires: longer than a
// checkout may take.
const reservationTime = 15 * time.Minute

// services are those of this process; nil are elsewhere.
type services struct {
	gateway   *payment.Gateway
	payment   *payment.Service
	inventory *inventory.Service
	shipping  *shipping.Service

	callers checkout.Services
	close   []func() error
}

// open opens the services that have no URL, and connects the others.
func (o *options) open(ctx context.Context) (s *services, err error) {
	s = &services{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.callers.Payment, err = s.connect(ctx, o, "payment", o.payment, func(store *sqlstore.Store) (wire.Service, error) {
		outside, err := sqlite.Open(ctx, filepath.Join(o.dir, "gateway.db"))
		if err != nil {
			return nil, err
		}
		s.close = append(s.close, outside.Close)
		if s.gateway, err = payment.NewGateway(ctx, outside, o.unreliable); err != nil {
			return nil, err
		}
		s.payment, err = payment.New(ctx, store, s.gateway)
		return s.payment.Methods(), err
	}); err != nil {
		return s, err
	}
	if s.callers.Inventory, err = s.connect(ctx, o, "inventory", o.inventory, func(store *sqlstore.Store) (wire.Service, error) {
		s.inventory, err = inventory.New(ctx, store, reservationTime)
		return s.inventory.Methods(), err
	}); err != nil {
		return s, err
	}
	s.callers.Shipping, err = s.connect(ctx, o, "shipping", o.shipping, func(store *sqlstore.Store) (wire.Service, error) {
		s.shipping, err = shipping.New(ctx, store)
		return s.shipping.Methods(), err
	})
	return s, err
}

// connect returns the caller of a service: that at a URL, or one that it makes.
func (s *services) connect(ctx context.Context, o *options, name, url string, make func(*sqlstore.Store) (wire.Service, error)) (wire.Caller, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	s.close = append(s.close, func() error { client.CloseIdleConnections(); return nil })
	if url != "" {
		return wire.HTTP(client, url, o.token), nil
	}
	store, err := sqlite.Open(ctx, filepath.Join(o.dir, name+".db"))
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, store.Close)
	service, err := make(store)
	if err != nil {
		return nil, err
	}
	switch o.transport {
	case "local":
		return wire.Local(service), nil
	case "amqp":
		return s.queue(ctx, o, name, service), nil
	}
	server := httptest.NewServer(wire.Handler(service, o.token))
	s.close = append(s.close, func() error { server.Close(); return nil })
	return wire.HTTP(client, server.URL, o.token), nil
}

// queue serves a service at a queue of the broker, and returns its caller.
func (s *services) queue(ctx context.Context, o *options, name string, service wire.Service) wire.Caller {
	queue := "orders." + name
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wire.ServeAMQP(serving, o.broker, queue, service, slog.Default())
	}()
	caller := wire.NewAMQP(o.broker, queue)
	s.close = append(s.close, func() error { stop(); <-ended; return nil }, caller.Close)
	return caller
}

// Close closes what was opened, the last first.
func (s *services) Close() (err error) {
	for i := len(s.close) - 1; i >= 0; i-- {
		err = errors.Join(err, s.close[i]())
	}
	return err
}

// serveOne serves one of the services until ctx ends.
func (o *options) serveOne(ctx context.Context, stderr io.Writer) error {
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	if err := s.fill(ctx, o.stock); err != nil {
		return errors.Join(err, s.Close())
	}
	of := map[string]func() wire.Service{
		"payment":   func() wire.Service { return s.payment.Methods() },
		"inventory": func() wire.Service { return s.inventory.Methods() },
		"shipping":  func() wire.Service { return s.shipping.Methods() },
	}
	err = serve(ctx, o.listen, wire.Handler(of[o.service](), o.token), stderr)
	return errors.Join(err, s.Close())
}

// logger writes what an operator should know from a level on: what services refuse is a
// warning, what cannot go on an error.
func logger(w io.Writer, from slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: from}))
}
