// Package views has the read models: the summary of all orders, the details of each, and
// the history of each customer. Each is a subscription of the event log, with tables of
// its own, written in the transaction of its checkpoint.
package views

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/interlock-go/interlock/examples/orders/internal/order"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/replay/eventlog"
)

var tables = []string{
	`CREATE TABLE view_details (order_id TEXT PRIMARY KEY, customer TEXT NOT NULL, status TEXT NOT NULL, cents BIGINT NOT NULL,
		placed BIGINT NOT NULL, changed BIGINT NOT NULL, reason TEXT NOT NULL DEFAULT '', placement TEXT NOT NULL)`,
	`CREATE TABLE view_summary (status TEXT PRIMARY KEY, orders BIGINT NOT NULL, cents BIGINT NOT NULL)`,
	// The status that the summary has counted an order in.
	`CREATE TABLE view_counted (order_id TEXT PRIMARY KEY, status TEXT NOT NULL, cents BIGINT NOT NULL)`,
	`CREATE TABLE view_history (customer TEXT NOT NULL, place BIGINT NOT NULL, order_id TEXT NOT NULL, what TEXT NOT NULL, at BIGINT NOT NULL,
		PRIMARY KEY (customer, place))`,
	`CREATE TABLE view_customers (order_id TEXT PRIMARY KEY, customer TEXT NOT NULL)`,
	`CREATE INDEX view_details_customer ON view_details (customer, placed)`,
}

// Views are the read models.
type Views struct {
	db   *sql.DB
	subs map[string]*eventlog.Subscription
}

// Subscription returns the one that keeps a read model: details, summary or history.
func (v *Views) Subscription(name string) *eventlog.Subscription { return v.subs[name] }

// Start starts the subscriptions.
func Start(ctx context.Context, log *eventlog.Log, store *sqlstore.Store) (*Views, error) {
	if err := store.Migrate(ctx, "views", tables); err != nil {
		return nil, err
	}
	v := &Views{db: store.DB(), subs: map[string]*eventlog.Subscription{}}
	for name, apply := range map[string]change{"details": details, "summary": summary, "history": history} {
		s, err := eventlog.Subscribe(ctx, log, eventlog.SubscriptionConfig{
			Name: name + "/1", Store: store, Together: store.Together, Types: order.Types(),
			Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[eventlog.Entry]) error {
				return apply(ctx, tx, job.Value, job.Value.Event.CorrelationID)
			}),
		})
		if err != nil {
			return nil, errors.Join(err, v.Close())
		}
		v.subs[name] = s
	}
	return v, nil
}

// change is what an event of an order changes in a read model.
type change func(ctx context.Context, tx *sql.Tx, e eventlog.Entry, id string) error

func details(ctx context.Context, tx *sql.Tx, e eventlog.Entry, id string) error {
	status, _ := order.Becomes(e.Event.Type)
	at := e.Time.UnixMicro()
	switch e.Event.Type {
	case order.Placed:
		var p order.Placement
		if err := json.Unmarshal(e.Event.Payload, &p); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO view_details (order_id, customer, status, cents, placed, changed, placement)
			VALUES ($1, $2, $3, $4, $5, $5, $6)`, id, p.Customer, status, p.Total(), at, string(e.Event.Payload))
		return err
	case order.WasCancelled:
		var c order.Cancellation
		if err := json.Unmarshal(e.Event.Payload, &c); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE view_details SET status = $2, changed = $3, reason = $4 WHERE order_id = $1`, id, status, at, c.Reason)
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE view_details SET status = $2, changed = $3 WHERE order_id = $1`, id, status, at)
	return err
}

func summary(ctx context.Context, tx *sql.Tx, e eventlog.Entry, id string) error {
	status, _ := order.Becomes(e.Event.Type)
	var cents int64
	if e.Event.Type == order.Placed {
		var p order.Placement
		if err := json.Unmarshal(e.Event.Payload, &p); err != nil {
			return err
		}
		cents = p.Total()
	} else {
		err := tx.QueryRowContext(ctx, `SELECT cents FROM view_counted WHERE order_id = $1`, id).Scan(&cents)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE view_summary SET orders = orders - 1, cents = cents - $2
			WHERE status = (SELECT status FROM view_counted WHERE order_id = $1)`, id, cents); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO view_counted (order_id, status, cents) VALUES ($1, $2, $3)
		ON CONFLICT (order_id) DO UPDATE SET status = excluded.status`, id, status, cents); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO view_summary (status, orders, cents) VALUES ($1, 1, $2)
		ON CONFLICT (status) DO UPDATE SET orders = view_summary.orders + 1, cents = view_summary.cents + excluded.cents`, status, cents)
	return err
}

func history(ctx context.Context, tx *sql.Tx, e eventlog.Entry, id string) error {
	if e.Event.Type == order.Placed {
		var p order.Placement
		if err := json.Unmarshal(e.Event.Payload, &p); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO view_customers (order_id, customer) VALUES ($1, $2)`, id, p.Customer); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO view_history (customer, place, order_id, what, at)
		SELECT customer, $2, order_id, $3, $4 FROM view_customers WHERE order_id = $1`,
		id, int64(e.At.Place()), e.Event.Type, e.Time.UnixMicro())
	return err
}

// Wait waits until all read models have come to an entry of the log.
func (v *Views) Wait(ctx context.Context, at ordering.Position) error {
	for _, s := range v.subs {
		if err := s.Wait(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

// CatchUp waits until all read models have what is in the log now.
func (v *Views) CatchUp(ctx context.Context) error {
	for _, s := range v.subs {
		if err := s.CatchUp(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the subscriptions.
func (v *Views) Close() (err error) {
	for _, s := range v.subs {
		err = errors.Join(err, s.Close())
	}
	return err
}

// Group is the orders in one state.
type Group struct {
	Status order.Status `json:"status"`
	Orders int          `json:"orders"`
	Cents  int64        `json:"cents"`
}

// Summary returns the number of orders, and their sum, by status.
func (v *Views) Summary(ctx context.Context) ([]Group, error) {
	return list(ctx, v.db, func(scan func(...any) error) (g Group, err error) {
		return g, scan(&g.Status, &g.Orders, &g.Cents)
	}, `SELECT status, orders, cents FROM view_summary WHERE orders > 0 ORDER BY status`)
}

// Details is an order.
type Details struct {
	Order     string          `json:"order"`
	Customer  string          `json:"customer"`
	Status    order.Status    `json:"status"`
	Cents     int64           `json:"cents"`
	Placed    time.Time       `json:"placed"`
	Changed   time.Time       `json:"changed"`
	Reason    string          `json:"reason,omitempty"`
	Placement json.RawMessage `json:"placement"`
}

// Details returns an order; found is false if there is none.
func (v *Views) Details(ctx context.Context, id string) (d Details, found bool, err error) {
	all, err := v.details(ctx, `order_id = $1`, id)
	if err != nil || len(all) == 0 {
		return Details{}, false, err
	}
	return all[0], true, nil
}

// Of returns the orders of a customer, in the order in which they were placed.
func (v *Views) Of(ctx context.Context, customer string) ([]Details, error) {
	return v.details(ctx, `customer = $1 ORDER BY placed, order_id`, customer)
}

func (v *Views) details(ctx context.Context, which string, args ...any) ([]Details, error) {
	return list(ctx, v.db, func(scan func(...any) error) (d Details, err error) {
		var placed, changed int64
		var placement string
		err = scan(&d.Order, &d.Customer, &d.Status, &d.Cents, &placed, &changed, &d.Reason, &placement)
		d.Placed, d.Changed, d.Placement = time.UnixMicro(placed).UTC(), time.UnixMicro(changed).UTC(), json.RawMessage(placement)
		return d, err
	}, `SELECT order_id, customer, status, cents, placed, changed, reason, placement FROM view_details WHERE `+which, args...)
}

// Happening is an event in the history of a customer.
type Happening struct {
	Order string    `json:"order"`
	What  string    `json:"what"`
	Time  time.Time `json:"time"`
}

// History returns the latest events of a customer's orders, the last one first.
func (v *Views) History(ctx context.Context, customer string) ([]Happening, error) {
	return list(ctx, v.db, func(scan func(...any) error) (h Happening, err error) {
		var at int64
		err = scan(&h.Order, &h.What, &at)
		h.Time = time.UnixMicro(at).UTC()
		return h, err
	}, `SELECT order_id, what, at FROM view_history WHERE customer = $1 ORDER BY place DESC LIMIT 100`, customer)
}

func list[T any](ctx context.Context, db *sql.DB, read func(scan func(...any) error) (T, error), query string, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		one, err := read(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}
