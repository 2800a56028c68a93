// Package shop is the order service: it takes orders, runs their checkouts, and answers
// questions about them.
package shop

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/interlock-go/interlock/dispatcher/telemetry"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/examples/orders/internal/checkout"
	"github.com/interlock-go/interlock/examples/orders/internal/order"
	"github.com/interlock-go/interlock/examples/orders/internal/views"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/eventlog"
	"github.com/interlock-go/interlock/replay/saga"
)

// Shop is the order service.
type Shop struct {
	*views.Views
	Sagas   *saga.Coordinator
	Log     *eventlog.Log
	Metrics *telemetry.Metrics // of Sources, of the store and of the steps

	store  *sqlstore.Store
	orders eventlog.Aggregate[order.Order]
}

// workers is the number of steps, of all checkouts, that are attempted at a time. Most of
// them wait for the answer of a service.
const workers = 512

// IsPostgres reports whether a database is one of PostgreSQL.
func IsPostgres(database string) bool {
	return strings.HasPrefix(database, "postgres://") || strings.HasPrefix(database, "postgresql://")
}

// Open opens the shop's database, the URL of one of PostgreSQL or the path of one of
// SQLite, and goes on with the checkouts that have not ended. With isolated, a checkout
// keeps its order and its customer.
func Open(ctx context.Context, database string, services checkout.Services, isolated bool, logger *slog.Logger) (_ *Shop, err error) {
	s := &Shop{Metrics: telemetry.NewMetrics()}
	open, dialect := sqlite.Open, eventlog.SQLite
	if IsPostgres(database) {
		open, dialect = postgres.Open, eventlog.PostgreSQL
	}
	if s.store, err = open(ctx, database); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	s.store.Measure(s.Metrics.Commits("shop"))
	s.Log, err = eventlog.New(ctx, s.store.DB(), dialect, eventlog.Config{Logger: logger})
	if err != nil {
		return nil, err
	}
	s.orders = eventlog.Aggregate[order.Order]{Log: s.Log, Name: "order", Apply: order.Apply}
	if s.Views, err = views.Start(ctx, s.Log, s.store); err != nil {
		return nil, err
	}
	s.Sagas, err = saga.New(ctx, saga.Config{Store: s.store, Record: checkout.Record(s.Log, s.orders), Workers: workers,
		Measure: s.Metrics.Steps("checkouts"), Logger: logger}, saga.Register(checkout.Definition(services, isolated)))
	if err != nil {
		return nil, err
	}
	for _, source := range s.Sources() {
		if err = s.Metrics.Add(source.Name, source.Source.(view.Metered)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Close ends the shop. Checkouts go on when it is opened again.
func (s *Shop) Close() (err error) {
	if s.Sagas != nil {
		err = s.Sagas.Close()
	}
	if s.Views != nil {
		err = errors.Join(err, s.Views.Close())
	}
	return errors.Join(err, s.store.Close())
}

// Errors of Place.
var (
	// ErrInvalid is wrapped by the error for a placement that is not valid.
	ErrInvalid = errors.New("the order is not valid")
	// ErrOther is wrapped by the error for an ID that another order has.
	ErrOther = errors.New("another order has this ID")
)

// Place takes an order and starts its checkout, in one transaction, and returns the
// position of the order in the log. The same order again is taken once.
func (s *Shop) Place(ctx context.Context, id string, p order.Placement) (at ordering.Position, err error) {
	if err := p.Validate(); err != nil {
		return at, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e, err := order.Event(order.Placed, id, p)
	if err != nil {
		return at, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e.ID = "order/" + id
	err = s.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.Sagas.Start(ctx, tx, id, checkout.State{Order: id, Placement: p}); err != nil {
			return err
		}
		appended, err := s.Log.Append(ctx, tx, []*ordering.Event{e}, ordering.Position{Stream: e.Positions[0].Stream})
		if err == nil {
			at = appended.Entries[0].At
		}
		return err
	})
	var conflict *saga.ConflictError
	if errors.As(err, &conflict) {
		return at, fmt.Errorf("%w: %w", ErrOther, err)
	}
	s.Log.Notify()
	s.Sagas.Notify()
	return at, err
}

// Cancel has an order cancelled, unless its payment has been captured.
func (s *Shop) Cancel(ctx context.Context, id, reason string) error {
	if _, err := order.Stream(id); err != nil {
		return err
	}
	return s.Sagas.Cancel(ctx, id, reason)
}

// Order returns the state of an order, made of its events.
func (s *Shop) Order(ctx context.Context, id string) (order.Order, error) {
	stream, err := order.Stream(id)
	if err != nil {
		return order.Order{}, err
	}
	state, err := s.orders.Load(ctx, stream)
	return state.Value, err
}

// Statement returns the orders of a customer while no checkout of one is under way: each
// is completed, cancelled, or has not begun. It waits for those that have begun, and
// holds up others meanwhile. In a shop that is not isolated it does neither, and finds
// orders half done.
func (s *Shop) Statement(ctx context.Context, customer string) (list []views.Details, err error) {
	key, err := lockkeys.New("customer", customer)
	if err != nil {
		return nil, fmt.Errorf("%w: customer %.80q: %w", ErrInvalid, customer, err)
	}
	err = s.Sagas.Do(ctx, func(claim *lockkeys.Claim) { claim.Exclusive(key) }, func(ctx context.Context) (err error) {
		if err = s.CatchUp(ctx); err == nil {
			list, err = s.Of(ctx, customer)
		}
		return err
	})
	return list, err
}

// Entry is an event in what became of an order.
type Entry struct {
	Place   uint64          `json:"place"`
	What    string          `json:"what"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// Trace returns all that has happened to an order and its checkout, in order; nothing if
// there is no such order.
func (s *Shop) Trace(ctx context.Context, id string) (entries []Entry, err error) {
	if _, err := order.Stream(id); err != nil {
		return nil, err
	}
	for e, err := range s.Log.Read(ctx, eventlog.Query{Correlation: id}) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{e.At.Number, e.Event.Type, e.Event.Payload})
	}
	return entries, nil
}

// Unended returns the number of checkouts that have not ended.
func (s *Shop) Unended(ctx context.Context) (int, error) {
	runs, err := s.Sagas.Active(ctx, 1<<20)
	return len(runs), err
}
