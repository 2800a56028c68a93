package payment

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strings"

	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// Gateway stands for a payment gateway on the internet, with a database of its own: calls
// fail before they have an effect, or after it, and it does everything once for an order.
// A card that begins with "declined" is refused.
type Gateway struct {
	store      *sqlstore.Store
	unreliable float64
}

// NewGateway returns a gateway. unreliable is the share of calls that fail without an
// answer.
func NewGateway(ctx context.Context, store *sqlstore.Store, unreliable float64) (*Gateway, error) {
	return &Gateway{store, unreliable}, store.Migrate(ctx, "gateway", []string{
		`CREATE TABLE charges (order_id TEXT PRIMARY KEY, cents BIGINT NOT NULL, captured BOOLEAN NOT NULL)`})
}

var errGateway = errors.New("gateway: no answer")

// do runs a statement of the gateway, loses its answer now and then, and returns the
// number of rows that it has changed.
func (g *Gateway) do(ctx context.Context, statement string, args ...any) (rows int64, err error) {
	if rand.Float64() < g.unreliable/2 {
		return 0, errGateway // before it had an effect
	}
	err = g.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, statement, args...)
		if err == nil {
			rows, err = done.RowsAffected()
		}
		return err
	})
	if rand.Float64() < g.unreliable/2 {
		return 0, errGateway // after it
	}
	return rows, err
}

// Authorize reserves money for an order.
func (g *Gateway) Authorize(ctx context.Context, order, card string, cents int64) error {
	if strings.HasPrefix(card, "declined") {
		return wire.Refuse("the card was declined")
	}
	_, err := g.do(ctx, `INSERT INTO charges (order_id, cents, captured) VALUES ($1, $2, FALSE) ON CONFLICT (order_id) DO NOTHING`, order, cents)
	return err
}

// Capture takes it.
func (g *Gateway) Capture(ctx context.Context, order string) error {
	n, err := g.do(ctx, `UPDATE charges SET captured = TRUE WHERE order_id = $1`, order)
	if err == nil && n == 0 {
		err = wire.Refuse("nothing is authorised for order %s", order)
	}
	return err
}

// Void gives it free or back.
func (g *Gateway) Void(ctx context.Context, order string) error {
	_, err := g.do(ctx, `DELETE FROM charges WHERE order_id = $1`, order)
	return err
}

// Captured returns all money taken and not given back, in cents.
func (g *Gateway) Captured(ctx context.Context) (cents int64, err error) {
	err = g.store.DB().QueryRowContext(ctx, `SELECT coalesce(sum(cents), 0) FROM charges WHERE captured`).Scan(&cents)
	return cents, err
}
