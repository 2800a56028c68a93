package orders

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/examples/orders/parts"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/replay/outbox"
)

// crudTables are those of a shop whose truth is what is there now, beside which an audit table keeps
// each row as it was after each change.
var crudTables = []string{
	`CREATE TABLE orders (order_id TEXT PRIMARY KEY, customer TEXT NOT NULL, card TEXT NOT NULL, country TEXT NOT NULL,
		status TEXT NOT NULL, cents BIGINT NOT NULL, placed BIGINT NOT NULL, changed BIGINT NOT NULL)`,
	`CREATE INDEX orders_customer ON orders (customer)`,
	`CREATE TABLE order_lines (order_id TEXT NOT NULL, product TEXT NOT NULL, quantity BIGINT NOT NULL, price BIGINT NOT NULL,
		PRIMARY KEY (order_id, product))`,
	`CREATE TABLE payments (order_id TEXT PRIMARY KEY, cents BIGINT NOT NULL, status TEXT NOT NULL)`,
	`CREATE TABLE products (product TEXT PRIMARY KEY, available BIGINT NOT NULL CHECK (available >= 0), sold BIGINT NOT NULL)`,
	`CREATE TABLE shipments (order_id TEXT PRIMARY KEY, tracking TEXT NOT NULL, status TEXT NOT NULL)`,
	`CREATE TABLE audit (n %s, at BIGINT NOT NULL, entity TEXT NOT NULL, id TEXT NOT NULL,
		action TEXT NOT NULL, who TEXT NOT NULL, data TEXT NOT NULL)`,
	`CREATE INDEX audit_entity ON audit (entity, id)`,
}

const (
	addOrder    = `INSERT INTO orders (order_id, customer, card, country, status, cents, placed, changed) VALUES ($1, $2, $3, $4, $5, $6, $7, $7)`
	addLine     = `INSERT INTO order_lines (order_id, product, quantity, price) VALUES ($1, $2, $3, $4)`
	setStatus   = `UPDATE orders SET status = $2, changed = $3 WHERE order_id = $1`
	addPayment  = `INSERT INTO payments (order_id, cents, status) VALUES ($1, $2, $3)`
	takeProduct = `UPDATE products SET available = available - $2, sold = sold + $2 WHERE product = $1`
	addShipment = `INSERT INTO shipments (order_id, tracking, status) VALUES ($1, $2, $3)`
	addAudit    = `INSERT INTO audit (at, entity, id, action, who, data) VALUES ($1, $2, $3, $4, $5, $6)`
)

// migrate makes the tables, and prepares the statements.
func migrate(ctx context.Context, store *sqlstore.Store) (statements, error) {
	serial := `INTEGER PRIMARY KEY AUTOINCREMENT`
	if store.Dialect() == outbox.PostgreSQL {
		serial = `BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY`
	}
	steps := make([]string, len(crudTables))
	for i, text := range crudTables {
		steps[i] = strings.ReplaceAll(text, "%s", serial)
	}
	if err := store.Migrate(ctx, "bench", steps); err != nil {
		return nil, err
	}
	return prepare(ctx, store, addOrder, addLine, setStatus, addPayment, takeProduct, addShipment, addAudit)
}

// insert writes an order with its lines.
func (s statements) insert(ctx context.Context, tx *sql.Tx, id string, p parts.Placement, status parts.Status, at time.Time) error {
	if err := s.exec(ctx, tx, addOrder, id, p.Customer, p.Card, p.Country, status, p.Total(), at.UnixMicro()); err != nil {
		return err
	}
	for _, l := range p.Lines {
		if err := s.exec(ctx, tx, addLine, id, l.Product, l.Quantity, l.Price); err != nil {
			return err
		}
	}
	return nil
}

// audit writes what a row is after a change.
func (s statements) audit(ctx context.Context, tx *sql.Tx, at time.Time, entity, id, action string, row map[string]any) error {
	data, err := json.Marshal(row)
	if err != nil {
		return err
	}
	return s.exec(ctx, tx, addAudit, at.UnixMicro(), entity, id, action, "shop", string(data))
}

// audited writes an order's row as it is in a state to the audit table.
func (s statements) audited(ctx context.Context, tx *sql.Tx, at time.Time, id, action string, p parts.Placement, status parts.Status) error {
	return s.audit(ctx, tx, at, "order", id, action, map[string]any{"order": id, "customer": p.Customer, "card": p.Card,
		"country": p.Country, "status": status, "cents": p.Total(), "lines": p.Lines})
}

// transaction has everything in one database and writes it in one transaction: no
// service, no gateway, nothing that can fail in between.
type transaction struct {
	store *sqlstore.Store
	statements
}

func openCRUD(ctx context.Context, database string) (*transaction, error) {
	store, err := openStore(ctx, database)
	if err != nil {
		return nil, err
	}
	s, err := migrate(ctx, store)
	return &transaction{store, s}, err
}

func openTransaction(ctx context.Context, database string, _ *parts.Services) (contender, error) {
	c, err := openCRUD(ctx, database)
	if err != nil {
		return nil, err
	}
	return c, c.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for n := range products {
			if _, err := tx.ExecContext(ctx, `INSERT INTO products (product, available, sold) VALUES ($1, 1000000, 0)`, product(n)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *transaction) order(ctx context.Context, id string, p parts.Placement) error {
	return c.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		at, tracking := time.Now(), rand.Text()[:12]
		if err := c.insert(ctx, tx, id, p, parts.Completed, at); err != nil {
			return err
		}
		if err := c.audited(ctx, tx, at, id, "insert", p, parts.Completed); err != nil {
			return err
		}
		if err := c.exec(ctx, tx, addPayment, id, p.Total(), "captured"); err != nil {
			return err
		}
		if err := c.audit(ctx, tx, at, "payment", id, "insert", map[string]any{"order": id, "cents": p.Total(), "status": "captured"}); err != nil {
			return err
		}
		lines := slices.SortedFunc(slices.Values(p.Lines), func(a, b parts.Line) int { return strings.Compare(a.Product, b.Product) })
		for _, l := range lines { // in one order, or they deadlock
			if err := c.exec(ctx, tx, takeProduct, l.Product, l.Quantity); err != nil {
				return err
			}
			if err := c.audit(ctx, tx, at, "product", l.Product, "update", map[string]any{"product": l.Product, "sold": l.Quantity, "order": id}); err != nil {
				return err
			}
		}
		if err := c.exec(ctx, tx, addShipment, id, tracking, "dispatched"); err != nil {
			return err
		}
		return c.audit(ctx, tx, at, "shipment", id, "insert", map[string]any{"order": id, "tracking": tracking, "status": "dispatched"})
	})
}

func (c *transaction) drain(context.Context) error { return nil }
func (c *transaction) close() error                { return c.store.Close() }

// calls asks the same services for the same things as the saga, one after the other, and
// notes after some of them how far the order is. What it was doing when its process ends,
// or a service fails, nobody knows.
type calls struct {
	*transaction
	services *parts.Services
}

func openCalls(ctx context.Context, database string, s *parts.Services) (contender, error) {
	c, err := openCRUD(ctx, database)
	return &calls{c, s}, err
}

func (c *calls) order(ctx context.Context, id string, p parts.Placement) error {
	err := c.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		at := time.Now()
		if err := c.insert(ctx, tx, id, p, parts.Pending, at); err != nil {
			return err
		}
		return c.audited(ctx, tx, at, id, "insert", p, parts.Pending)
	})
	if err != nil {
		return err
	}
	s := c.services.Callers
	pay := func(method, step string) error {
		return s.Payment.Call(ctx, method, id+"/"+step+"/do", parts.PaymentRequest{Order: id, Card: p.Card, Cents: p.Total()}, &parts.PaymentAnswer{})
	}
	stock := func(method string) error {
		return s.Inventory.Call(ctx, method, id+"/"+method+"/do", parts.InventoryRequest{Order: id, Lines: p.Lines}, &parts.InventoryAnswer{})
	}
	ship := func(method string) error {
		return s.Shipping.Call(ctx, method, id+"/"+method+"/do", parts.ShippingRequest{Order: id, Country: p.Country}, &parts.ShippingAnswer{})
	}
	set := func(status parts.Status) error {
		return c.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			at := time.Now()
			if err := c.exec(ctx, tx, setStatus, id, status, at.UnixMicro()); err != nil {
				return err
			}
			return c.audited(ctx, tx, at, id, "update", p, status)
		})
	}
	for _, step := range []func() error{
		func() error { return pay("authorize", "authorize") }, func() error { return set(parts.Paid) },
		func() error { return stock("reserve") }, func() error { return set(parts.Reserved) },
		func() error { return ship("plan") }, func() error { return stock("confirm") }, func() error { return pay("capture", "capture") },
		func() error { return ship("dispatch") }, func() error { return set(parts.Completed) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
