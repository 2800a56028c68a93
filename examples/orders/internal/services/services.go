// Package services opens the shop's services, each with a database of its own, and
// connects the orchestrator with them.
package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"

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

// Transports, by which services are called.
const (
	Local = "local"
	HTTP  = "http"
	GRPC  = "grpc"
	AMQP  = "amqp"
)

// Transports are all of them.
var Transports = []string{Local, HTTP, GRPC, AMQP}

// Options say where the services are.
type Options struct {
	// Dir is the folder of the databases.
	Dir string
	// Unreliable is the share of the gateway's calls that fail without an answer.
	Unreliable float64
	// Transport is how services of this process are called: Local, HTTP or GRPC, on ports of
	// the loopback interface, or AMQP, by queues of the broker at the URL Broker.
	Transport, Broker string
	// Token is the bearer token, if not empty.
	Token string
	// Payment, Inventory and Shipping are the URLs of services that are elsewhere: http://,
	// grpc:// or amqp://; those without one are in this process.
	Payment, Inventory, Shipping string
	// Only, if not empty, is the name of the only service that is opened.
	Only string
}

// Service is one of the services.
type Service interface {
	Methods() wire.Service
	Register(grpc.ServiceRegistrar)
}

// Services are those of this process; nil are elsewhere.
type Services struct {
	Gateway   *payment.Gateway
	Payment   *payment.Service
	Inventory *inventory.Service
	Shipping  *shipping.Service
	// Callers call them, wherever they are.
	Callers checkout.Services

	options Options
	close   []func() error
}

// Open opens the services that have no URL, and connects the others. Close them.
func Open(ctx context.Context, o Options) (s *Services, err error) {
	s = &Services{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.Callers.Payment, err = s.connect(ctx, "payment", o.Payment, payment.GRPC, func(store *sqlstore.Store) (Service, error) {
		outside, err := sqlite.Open(ctx, filepath.Join(o.Dir, "gateway.db"))
		if err != nil {
			return nil, err
		}
		s.close = append(s.close, outside.Close)
		if s.Gateway, err = payment.NewGateway(ctx, outside, o.Unreliable); err != nil {
			return nil, err
		}
		s.Payment, err = payment.New(ctx, store, s.Gateway)
		return s.Payment, err
	}); err != nil {
		return s, err
	}
	if s.Callers.Inventory, err = s.connect(ctx, "inventory", o.Inventory, inventory.GRPC, func(store *sqlstore.Store) (Service, error) {
		s.Inventory, err = inventory.New(ctx, store, reservationTime)
		return s.Inventory, err
	}); err != nil {
		return s, err
	}
	s.Callers.Shipping, err = s.connect(ctx, "shipping", o.Shipping, shipping.GRPC, func(store *sqlstore.Store) (Service, error) {
		s.Shipping, err = shipping.New(ctx, store)
		return s.Shipping, err
	})
	return s, err
}

// connect returns the caller of a service: that at a URL, or one that it makes.
func (s *Services) connect(ctx context.Context, name, url string, stub func(grpc.ClientConnInterface, string) wire.Caller, make func(*sqlstore.Store) (Service, error)) (wire.Caller, error) {
	o := s.options
	switch {
	case o.Only != "" && o.Only != name:
		return nil, nil
	case url != "":
		return s.dial(url, name, stub)
	}
	store, err := sqlite.Open(ctx, filepath.Join(o.Dir, name+".db"))
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, store.Close)
	service, err := make(store)
	if err != nil {
		return nil, err
	}
	switch o.Transport {
	case AMQP:
		s.run(ctx, func(ctx context.Context) error {
			wire.ServeAMQP(ctx, o.Broker, queue(name), service.Methods(), slog.Default())
			return nil
		})
		return s.dial(o.Broker, name, stub)
	case HTTP:
		server := httptest.NewServer(wire.Handler(service.Methods(), o.Token))
		s.close = append(s.close, func() error { server.Close(); return nil })
		return s.dial(server.URL, name, stub)
	case GRPC:
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		s.run(ctx, func(ctx context.Context) error { return wire.ServeGRPC(ctx, listener, o.Token, service.Register) })
		return s.dial("grpc://"+listener.Addr().String(), name, stub)
	}
	return wire.Local(service.Methods()), nil
}

// dial returns the caller of a service at a URL.
func (s *Services) dial(url, name string, stub func(grpc.ClientConnInterface, string) wire.Caller) (wire.Caller, error) {
	scheme, address, _ := strings.Cut(url, "://")
	switch scheme {
	case GRPC:
		conn, err := wire.DialGRPC(address)
		if err != nil {
			return nil, err
		}
		s.close = append(s.close, conn.Close)
		return stub(conn, s.options.Token), nil
	case AMQP, "amqps":
		caller := wire.NewAMQP(url, queue(name))
		s.close = append(s.close, caller.Close)
		return caller, nil
	case HTTP, "https":
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
		s.close = append(s.close, func() error { client.CloseIdleConnections(); return nil })
		return wire.HTTP(client, url, s.options.Token), nil
	}
	return nil, fmt.Errorf("the %s service: its URL is %q: it must begin with http://, https://, grpc:// or amqp://", name, url)
}

// run runs a server until the services are closed.
func (s *Services) run(ctx context.Context, serve func(ctx context.Context) error) {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- serve(serving) }()
	s.close = append(s.close, func() error { stop(); return <-ended })
}

// queue is where a service gets its calls over RabbitMQ.
func queue(name string) string { return "orders." + name }

// Named returns the service of a name, which is in this process.
func (s *Services) Named(name string) Service {
	return map[string]Service{"payment": s.Payment, "inventory": s.Inventory, "shipping": s.Shipping}[name]
}

// Close closes what was opened, the last first.
func (s *Services) Close() (err error) {
	for i := len(s.close) - 1; i >= 0; i-- {
		err = errors.Join(err, s.close[i]())
	}
	return err
}
