// Package payment is the payment service: it authorises, captures and refunds payments
// of orders, each once for an order, at an unreliable gateway.
package payment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/orders/internal/once"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/replay/saga"
	"github.com/sony/gobreaker/v2"
)

// Status is the state of a payment.
//
//	state       goes on to
//	authorized  captured; voided, which nobody has paid
//	captured    refunded
type Status string

// The states of a payment.
const (
	None       Status = "none"
	Authorized Status = "authorized"
	Captured   Status = "captured"
	Voided     Status = "voided"
	Refunded   Status = "refunded"
)

// Request is what the service is asked for.
type Request struct {
	Order string `json:"order"`
	Card  string `json:"card,omitempty"`
	Cents int64  `json:"cents,omitempty"`
}

// Answer is what became of it.
type Answer struct {
	Status Status `json:"status"`
}

// tables of the service. undone says that the undo of an action came before it.
var tables = []string{
	`CREATE TABLE payments (order_id TEXT PRIMARY KEY, cents BIGINT NOT NULL, status TEXT NOT NULL)`,
	saga.BarrierTable,
}

// Service is the payment service.
type Service struct {
	store   *sqlstore.Store
	gateway *Gateway
	breaker *gobreaker.CircuitBreaker[struct{}]
	calls   chan struct{} // a bulkhead: a place for each call of the gateway
}

// Attempts at the gateway, the time limit of one, and the calls at a time.
const (
	attempts = 4
	limit    = 500 * time.Millisecond
	bulkhead = 32
)

// New returns the service with its own database.
func New(ctx context.Context, store *sqlstore.Store, gateway *Gateway) (*Service, error) {
	if err := store.Migrate(ctx, "payment", tables); err != nil {
		return nil, err
	}
	return &Service{
		store: store, gateway: gateway, calls: make(chan struct{}, bulkhead),
		breaker: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
			Name: "gateway", MaxRequests: 3, Timeout: time.Second, Interval: 10 * time.Second,
			ReadyToTrip: func(c gobreaker.Counts) bool {
				return c.Requests >= 10 && c.TotalFailures*2 >= c.Requests
			},
			// What the gateway refuses, it has answered.
			IsSuccessful: func(err error) bool { return err == nil || errors.As(err, new(*wire.Refusal)) },
		}),
	}, nil
}

// Methods returns the methods for callers.
func (s *Service) Methods() wire.Service {
	return wire.Service{
		"authorize": wire.Of(s.Authorize), "void": wire.Of(s.Void), "capture": wire.Of(s.Capture), "status": wire.Of(s.Status),
	}
}

// Authorize reserves the money. It is refused if the card is, or if the payment was voided.
func (s *Service) Authorize(ctx context.Context, key string, r Request) (Answer, error) {
	switch status, err := s.status(ctx, r.Order); {
	case err != nil:
		return Answer{}, err
	case status == Authorized || status == Captured:
		return Answer{status}, nil
	case status != None:
		return Answer{}, wire.Refuse("the payment is %s", status)
	}
	if err := s.call(ctx, func(ctx context.Context) error { return s.gateway.Authorize(ctx, r.Order, r.Card, r.Cents) }); err != nil {
		return Answer{}, err
	}
	err := once.Do(ctx, s.store, key, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO payments (order_id, cents, status) VALUES ($1, $2, $3)`, r.Order, r.Cents, Authorized)
		return err
	})
	if errors.Is(err, saga.ErrUndone) { // the undo came first, and found nothing to void
		if err = s.call(ctx, func(ctx context.Context) error { return s.gateway.Void(ctx, r.Order) }); err == nil {
			err = wire.Refuse("the order was cancelled")
		}
	}
	return Answer{Authorized}, err
}

// Void gives the money free again, or back if it was captured. It may be asked for what
// was never authorised. It is recorded before the gateway is called: so an Authorize at the
// same time has either charged by then, or finds that it was undone, and voids by itself.
func (s *Service) Void(ctx context.Context, key string, r Request) (Answer, error) {
	err := once.Do(ctx, s.store, key, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE payments SET status = CASE status WHEN $2 THEN $3 ELSE $4 END WHERE order_id = $1`,
			r.Order, Captured, Refunded, Voided)
		return err
	})
	if err == nil { // also when it comes again, since the gateway may not have been called
		err = s.call(ctx, func(ctx context.Context) error { return s.gateway.Void(ctx, r.Order) })
	}
	if err != nil {
		return Answer{}, err
	}
	return Answer{Voided}, nil
}

// Capture takes the money that was authorised.
func (s *Service) Capture(ctx context.Context, key string, r Request) (Answer, error) {
	switch status, err := s.status(ctx, r.Order); {
	case err != nil:
		return Answer{}, err
	case status == Captured:
		return Answer{status}, nil
	case status != Authorized:
		return Answer{}, wire.Refuse("the payment is %s", status)
	}
	if err := s.call(ctx, func(ctx context.Context) error { return s.gateway.Capture(ctx, r.Order) }); err != nil {
		return Answer{}, err
	}
	err := once.Do(ctx, s.store, key, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE payments SET status = $2 WHERE order_id = $1`, r.Order, Captured)
		return err
	})
	return Answer{Captured}, err
}

// Status returns the state of a payment.
func (s *Service) Status(ctx context.Context, _ string, r Request) (Answer, error) {
	status, err := s.status(ctx, r.Order)
	return Answer{status}, err
}

func (s *Service) status(ctx context.Context, order string) (status Status, err error) {
	err = s.store.DB().QueryRowContext(ctx, `SELECT status FROM payments WHERE order_id = $1`, order).Scan(&status)
	if errors.Is(err, sql.ErrNoRows) {
		return None, nil
	}
	return status, err
}

// call calls the gateway, which may fail without an answer, with attempts, a time limit
// for each, a breaker and a bulkhead.
func (s *Service) call(ctx context.Context, call func(ctx context.Context) error) (err error) {
	select {
	case s.calls <- struct{}{}:
		defer func() { <-s.calls }()
	case <-ctx.Done():
		return ctx.Err()
	}
	back := dispatcher.Backoff{}.WithDefaults(5*time.Millisecond, 100*time.Millisecond)
	for attempt := 1; ; attempt++ {
		_, err = s.breaker.Execute(func() (struct{}, error) {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			return struct{}{}, call(ctx)
		})
		if err == nil || errors.As(err, new(*wire.Refusal)) {
			return err
		}
		if attempt == attempts {
			return fmt.Errorf("payment: the gateway, after %d attempts: %w", attempt, err)
		}
		select {
		case <-time.After(back.Wait(attempt)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Sum returns what was captured and not refunded, in cents.
func (s *Service) Sum(ctx context.Context) (cents int64, err error) {
	err = s.store.DB().QueryRowContext(ctx, `SELECT coalesce(sum(cents), 0) FROM payments WHERE status = $1`, Captured).Scan(&cents)
	return cents, err
}

// Open returns the orders with money that is authorised and neither captured nor voided.
func (s *Service) Open(ctx context.Context) (n int, err error) {
	err = s.store.DB().QueryRowContext(ctx, `SELECT count(*) FROM payments WHERE status = $1`, Authorized).Scan(&n)
	return n, err
}
