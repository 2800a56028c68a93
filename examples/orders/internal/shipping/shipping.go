// Package shipping is the shipping service: it plans shipments of orders, dispatches and
// delivers them.
package shipping

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"slices"

	"github.com/interlock-go/interlock/examples/orders/internal/once"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/replay/saga"
)

// Request is what the service is asked for.
type Request struct {
	Order   string `json:"order"`
	Country string `json:"country,omitempty"`
}

// Answer is what became of it.
type Answer struct {
	Tracking string `json:"tracking"`
	Status   Status `json:"status"`
}

// Status is the state of a shipment.
//
//	state       goes on to
//	planned     dispatched; cancelled
//	dispatched  delivered
type Status string

// The states of a shipment.
const (
	Planned    Status = "planned"
	Cancelled  Status = "cancelled"
	Dispatched Status = "dispatched"
	Delivered  Status = "delivered"
)

var tables = []string{
	`CREATE TABLE shipments (order_id TEXT PRIMARY KEY, tracking TEXT NOT NULL, status TEXT NOT NULL)`,
	saga.BarrierTable,
}

// Countries are those that are shipped to.
var Countries = []string{"DE", "FR", "NL", "UA"}

// Service is the shipping service.
type Service struct{ store *sqlstore.Store }

// New returns the service with its own database.
func New(ctx context.Context, store *sqlstore.Store) (*Service, error) {
	if err := store.Migrate(ctx, "shipping", tables); err != nil {
		return nil, err
	}
	return &Service{store}, nil
}

// Methods returns the methods for callers.
func (s *Service) Methods() wire.Service {
	return wire.Service{
		"plan": wire.Of(s.Plan), "cancel": wire.Of(s.Cancel), "dispatch": wire.Of(s.Dispatch), "deliver": wire.Of(s.Deliver),
	}
}

// Plan plans the shipment of an order. It is refused for other countries.
func (s *Service) Plan(ctx context.Context, key string, r Request) (Answer, error) {
	if !slices.Contains(Countries, r.Country) {
		return Answer{}, wire.Refuse("nothing is shipped to %q", r.Country)
	}
	err := once.Do(ctx, s.store, key, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO shipments (order_id, tracking, status) VALUES ($1, $2, $3)`, r.Order, rand.Text()[:12], Planned)
		return err
	})
	if errors.Is(err, saga.ErrUndone) {
		err = wire.Refuse("the order was cancelled")
	}
	return s.answer(ctx, r.Order, err)
}

// Cancel takes the plan back.
func (s *Service) Cancel(ctx context.Context, key string, r Request) (Answer, error) {
	err := once.Do(ctx, s.store, key, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE shipments SET status = $2 WHERE order_id = $1 AND status = $3`, r.Order, Cancelled, Planned)
		return err
	})
	return Answer{Status: Cancelled}, err
}

// Dispatch sends the shipment.
func (s *Service) Dispatch(ctx context.Context, key string, r Request) (Answer, error) {
	err := once.Do(ctx, s.store, key, func(ctx context.Context, tx *sql.Tx) error { return move(ctx, tx, r.Order, Planned, Dispatched) })
	return s.answer(ctx, r.Order, err)
}

// Deliver notes that it has arrived. It is called by the carrier, and does nothing the
// second time.
func (s *Service) Deliver(ctx context.Context, _ string, r Request) (Answer, error) {
	err := s.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error { return move(ctx, tx, r.Order, Dispatched, Delivered) })
	if a, found := s.answer(ctx, r.Order, nil); found == nil && a.Status == Delivered {
		return a, nil
	}
	return s.answer(ctx, r.Order, err)
}

func move(ctx context.Context, tx *sql.Tx, order string, from, to Status) error {
	done, err := tx.ExecContext(ctx, `UPDATE shipments SET status = $3 WHERE order_id = $1 AND status = $2`, order, from, to)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, wire.Refuse("the shipment of order %s is not %s", order, from))
	}
	return nil
}

// answer returns what is known of a shipment, or the error.
func (s *Service) answer(ctx context.Context, order string, err error) (a Answer, _ error) {
	if err == nil {
		err = s.store.DB().QueryRowContext(ctx, `SELECT tracking, status FROM shipments WHERE order_id = $1`, order).Scan(&a.Tracking, &a.Status)
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = wire.Refuse("order %s has no shipment", order)
	}
	return a, err
}

// Count returns the number of shipments in a state.
func (s *Service) Count(ctx context.Context, status Status) (n int, err error) {
	err = s.store.DB().QueryRowContext(ctx, `SELECT count(*) FROM shipments WHERE status = $1`, status).Scan(&n)
	return n, err
}
