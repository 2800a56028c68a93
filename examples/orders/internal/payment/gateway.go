package payment

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/interlock-go/interlock/examples/orders/internal/wire"
)

// Gateway stands for a payment gateway on the internet: calls fail before they have an
// effect, or after it, and it does everything once for an order. A card that begins with
// "declined" is refused.
type Gateway struct {
	// Unreliable is the share of calls that fail.
	Unreliable float64

	mu sync.Mutex
	// payments has what was authorised by order, in cents; captured what was taken. Both
	// are guarded by mu.
	payments, captured map[string]int64
}

var errGateway = errors.New("gateway: no answer")

// do runs an action of the gateway, and loses its answer now and then.
func (g *Gateway) do(ctx context.Context, act func() error) error {
	if rand.Float64() < g.Unreliable/2 {
		return errGateway // before it had an effect
	}
	g.mu.Lock()
	if g.payments == nil {
		g.payments, g.captured = map[string]int64{}, map[string]int64{}
	}
	err := act()
	g.mu.Unlock()
	if rand.Float64() < g.Unreliable/2 {
		return errGateway // after it
	}
	return errors.Join(err, ctx.Err())
}

// Authorize reserves money for an order.
func (g *Gateway) Authorize(ctx context.Context, order, card string, cents int64) error {
	return g.do(ctx, func() error {
		if strings.HasPrefix(card, "declined") {
			return wire.Refuse("the card was declined")
		}
		g.payments[order] = cents
		return nil
	})
}

// Capture takes it.
func (g *Gateway) Capture(ctx context.Context, order string) error {
	return g.do(ctx, func() error {
		cents, is := g.payments[order]
		if !is {
			return wire.Refuse("nothing is authorised for order %s", order)
		}
		g.captured[order] = cents
		return nil
	})
}

// Void gives it free or back.
func (g *Gateway) Void(ctx context.Context, order string) error {
	return g.do(ctx, func() error {
		delete(g.payments, order)
		delete(g.captured, order)
		return nil
	})
}

// Captured returns all money taken and not given back, in cents.
func (g *Gateway) Captured() (cents int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.captured {
		cents += c
	}
	return cents
}
