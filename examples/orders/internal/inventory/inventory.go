// Package inventory is the inventory service: how many of each product are available and
// how many are reserved for orders. Nothing is sold that is not there.
package inventory

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/interlock-go/interlock/examples/orders/internal/once"
	"github.com/interlock-go/interlock/examples/orders/internal/order"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/replay/saga"
)

// Request is what the service is asked for.
type Request struct {
	Order string       `json:"order"`
	Lines []order.Line `json:"lines,omitempty"`
}

// Answer is what became of it.
type Answer struct {
	Reserved bool `json:"reserved"`
}

// tables of the service. A reservation expires, and gives its products free, unless it
// is confirmed (expires is 0 then). version counts the changes of a product: whoever
// changes it names the version that it has seen.
var tables = []string{
	`CREATE TABLE products (product TEXT PRIMARY KEY, available BIGINT NOT NULL CHECK (available >= 0),
		sold BIGINT NOT NULL DEFAULT 0, version BIGINT NOT NULL DEFAULT 0)`,
	`CREATE TABLE reservations (order_id TEXT NOT NULL, product TEXT NOT NULL, quantity BIGINT NOT NULL, expires BIGINT NOT NULL,
		PRIMARY KEY (order_id, product))`,
	`CREATE INDEX reservations_expires ON reservations (expires) WHERE expires > 0`,
	saga.BarrierTable,
}

// Service is the inventory service.
type Service struct {
	store *sqlstore.Store
	keep  time.Duration
}

// New returns the service with its own database. An unconfirmed reservation is kept for a
// time.
func New(ctx context.Context, store *sqlstore.Store, keep time.Duration) (*Service, error) {
	if err := store.Migrate(ctx, "inventory", tables); err != nil {
		return nil, err
	}
	return &Service{store, keep}, nil
}

// Methods returns the methods for callers.
func (s *Service) Methods() wire.Service {
	return wire.Service{"reserve": wire.Of(s.Reserve), "release": wire.Of(s.Release), "confirm": wire.Of(s.Confirm)}
}

// Stock adds products.
func (s *Service) Stock(ctx context.Context, product string, quantity int64) error {
	return s.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error { return add(ctx, tx, product, quantity) })
}

// Fill gives an inventory that has no products so many of each, all of them or none.
func (s *Service) Fill(ctx context.Context, products []string, each int64) error {
	return s.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var there int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM products`).Scan(&there); err != nil || there > 0 {
			return err
		}
		for _, product := range products {
			if err := add(ctx, tx, product, each); err != nil {
				return err
			}
		}
		return nil
	})
}

func add(ctx context.Context, tx *sql.Tx, product string, quantity int64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO products (product, available) VALUES ($1, $2)
		ON CONFLICT (product) DO UPDATE SET available = products.available + excluded.available, version = products.version + 1`, product, quantity)
	return err
}

// Reserve takes products out of what is available, all of an order or none.
func (s *Service) Reserve(ctx context.Context, key string, r Request) (Answer, error) {
	err := once.Do(ctx, s.store, key, func(ctx context.Context, tx *sql.Tx) error {
		for _, l := range r.Lines {
			if err := take(ctx, tx, l.Product, l.Quantity); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO reservations (order_id, product, quantity, expires) VALUES ($1, $2, $3, $4)`,
				r.Order, l.Product, l.Quantity, time.Now().Add(s.keep).UnixMicro())
			if err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, saga.ErrUndone) {
		err = wire.Refuse("the order was cancelled")
	}
	return Answer{err == nil}, err
}

// errChanged is for a product that somebody else has changed since it was read.
var errChanged = errors.New("inventory: the product was changed meanwhile: try again")

func take(ctx context.Context, tx *sql.Tx, product string, quantity int64) error {
	var available, version int64
	err := tx.QueryRowContext(ctx, `SELECT available, version FROM products WHERE product = $1`, product).Scan(&available, &version)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return wire.Refuse("there is no product %q", product)
	case err != nil:
		return err
	case available < quantity:
		return wire.Refuse("of product %q there are %d, not %d", product, available, quantity)
	}
	done, err := tx.ExecContext(ctx, `UPDATE products SET available = available - $3, version = version + 1 WHERE product = $1 AND version = $2`,
		product, version, quantity)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errChanged)
	}
	return nil
}

// Release gives an order's products free again, if they are reserved, or sold.
func (s *Service) Release(ctx context.Context, key string, r Request) (Answer, error) {
	return Answer{}, once.Do(ctx, s.store, key, func(ctx context.Context, tx *sql.Tx) error { return release(ctx, tx, r.Order) })
}

func release(ctx context.Context, tx *sql.Tx, order string) error {
	_, err := tx.ExecContext(ctx, `UPDATE products SET version = version + 1, available = available +
			(SELECT sum(quantity) FROM reservations r WHERE r.order_id = $1 AND r.product = products.product),
			sold = sold - (SELECT sum(CASE expires WHEN 0 THEN quantity ELSE 0 END) FROM reservations r WHERE r.order_id = $1 AND r.product = products.product)
		WHERE product IN (SELECT product FROM reservations WHERE order_id = $1)`, order)
	if err == nil {
		_, err = tx.ExecContext(ctx, `DELETE FROM reservations WHERE order_id = $1`, order)
	}
	return err
}

// Confirm makes a reservation one that does not expire. It is refused if it has expired.
func (s *Service) Confirm(ctx context.Context, key string, r Request) (Answer, error) {
	err := once.Do(ctx, s.store, key, func(ctx context.Context, tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, `UPDATE products SET version = version + 1,
				sold = sold + (SELECT sum(quantity) FROM reservations r WHERE r.order_id = $1 AND r.product = products.product)
			WHERE product IN (SELECT product FROM reservations WHERE order_id = $1 AND expires > 0)`, r.Order)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, wire.Refuse("the reservation has expired"))
		}
		_, err = tx.ExecContext(ctx, `UPDATE reservations SET expires = 0 WHERE order_id = $1`, r.Order)
		return err
	})
	return Answer{err == nil}, err
}

// Expire gives the products of reservations free that were not confirmed in time, and
// returns the number of orders.
func (s *Service) Expire(ctx context.Context, now time.Time) (orders int, err error) {
	return orders, s.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		orders = 0
		rows, err := tx.QueryContext(ctx, `SELECT DISTINCT order_id FROM reservations WHERE expires > 0 AND expires <= $1 LIMIT 1000`, now.UnixMicro())
		if err != nil {
			return err
		}
		defer rows.Close()
		var ids []string
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for _, id := range ids {
			if err := release(ctx, tx, id); err != nil {
				return err
			}
			orders++
		}
		return nil
	})
}

// Counts is the stock of all products.
type Counts struct{ Available, Reserved, Sold int64 }

// Counts returns the stock of all products together.
func (s *Service) Counts(ctx context.Context) (c Counts, err error) {
	err = s.store.DB().QueryRowContext(ctx, `SELECT coalesce(sum(available), 0), coalesce(sum(sold), 0),
		(SELECT coalesce(sum(quantity), 0) FROM reservations WHERE expires > 0) FROM products`).Scan(&c.Available, &c.Sold, &c.Reserved)
	return c, err
}
