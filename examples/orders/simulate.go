package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/interlock-go/interlock/examples/orders/internal/order"
	"github.com/interlock-go/interlock/examples/orders/internal/services"
	"github.com/interlock-go/interlock/examples/orders/internal/shipping"
	"github.com/interlock-go/interlock/examples/orders/internal/shop"
	"github.com/interlock-go/interlock/replay/saga"
)

// The made-up world.
const (
	productCount  = 20
	customerCount = 200
	placers       = 16 // orders that are placed at a time
)

// simulate places made-up orders, of which some fail at every step, waits until all have
// ended, and checks that all of it fits together.
func (o *options) simulate(ctx context.Context, stdout, stderr io.Writer) (good bool, err error) {
	s, err := services.Open(ctx, o.Options)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if s.Payment == nil || s.Inventory == nil || s.Shipping == nil {
		return false, errors.New("the invariants can be checked only of services in this process: leave out their URLs, or serve with -listen")
	}
	sh, err := shop.Open(ctx, o.shopDB(), s.Callers, o.isolated, logger(stderr, slog.LevelError))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, sh.Close()) }()

	// Not enough of each product for all orders.
	var stock int64
	for p := range productCount {
		n := int64(o.orders) / productCount * 2
		if err := s.Inventory.Stock(ctx, product(p), n); err != nil {
			return false, err
		}
		stock += n
	}
	start := time.Now()
	if err := o.placeAll(ctx, sh); err != nil {
		return false, err
	}
	placed := time.Since(start)
	for {
		n, err := sh.Unended(ctx)
		if err != nil {
			return false, err
		}
		if n == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	elapsed := time.Since(start)
	if err := sh.CatchUp(ctx); err != nil {
		return false, err
	}
	fmt.Fprintf(stdout, "%d orders placed in %v; all checkouts ended after %v: %.0f a second\n\n",
		o.orders, placed.Round(time.Millisecond), elapsed.Round(time.Millisecond), float64(o.orders)/elapsed.Seconds())
	return o.report(ctx, stdout, sh, s, stock)
}

func product(n int) string { return fmt.Sprintf("product-%02d", n) }

// placeAll places the orders, and cancels a few.
func (o *options) placeAll(ctx context.Context, sh *shop.Shop) error {
	random := rand.New(rand.NewPCG(o.seed, 1))
	var mu sync.Mutex // guards random and next
	next := 0
	draw := func() (id string, p order.Placement, cancel, more bool) {
		mu.Lock()
		defer mu.Unlock()
		if next++; next > o.orders {
			return "", p, false, false
		}
		id, p = fmt.Sprintf("%08d", next), placement(random)
		return id, p, random.IntN(25) == 0, true
	}
	var all sync.WaitGroup
	errs := make([]error, placers)
	for i := range placers {
		all.Go(func() {
			for errs[i] == nil {
				id, p, cancel, more := draw()
				if !more {
					return
				}
				if _, errs[i] = sh.Place(ctx, id, p); errs[i] != nil || !cancel {
					continue
				}
				err := sh.Cancel(ctx, id, "the customer has changed his mind")
				if err != nil && !errors.Is(err, saga.ErrPastPivot) && !errors.As(err, new(*saga.EndedError)) {
					errs[i] = err
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// placement makes an order up. Some have a card that is declined, some go where nothing is
// shipped, some want what there is not.
func placement(r *rand.Rand) order.Placement {
	p := order.Placement{
		Customer: fmt.Sprintf("customer-%03d", r.IntN(customerCount)), Card: "card",
		Country: shipping.Countries[r.IntN(len(shipping.Countries))],
	}
	switch r.IntN(20) {
	case 0:
		p.Card = "declined"
	case 1:
		p.Country = "AQ"
	}
	first := r.IntN(productCount)
	for i := range 1 + r.IntN(3) {
		p.Lines = append(p.Lines, order.Line{Product: product((first + i) % productCount), Quantity: 1 + r.Int64N(2), Price: 100 + r.Int64N(10_000)})
	}
	if r.IntN(40) == 0 {
		p.Lines[0].Product = "sold out for ever"
	}
	return p
}

// report prints what happened, and whether it fits together.
func (o *options) report(ctx context.Context, w io.Writer, sh *shop.Shop, s *services.Services, stock int64) (good bool, err error) {
	groups, err := sh.Summary(ctx)
	if err != nil {
		return false, err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "status\torders\tmoney\t")
	orders := map[order.Status]int{}
	money := map[order.Status]int64{}
	total := 0
	for _, g := range groups {
		fmt.Fprintf(table, "%s\t%d\t%d.%02d\t\n", g.Status, g.Orders, g.Cents/100, g.Cents%100)
		orders[g.Status], money[g.Status] = g.Orders, g.Cents
		total += g.Orders
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	fmt.Fprintln(w)

	good = true
	check := func(what string, got, want any) {
		verdict := "ok"
		if got != want {
			verdict, good = fmt.Sprintf("WRONG: %v, should be %v", got, want), false
		}
		fmt.Fprintf(w, "%-72s %s\n", what, verdict)
	}
	var failed error
	count := func(n int, err error) int { failed = errors.Join(failed, err); return n }
	cents := func(n int64, err error) int64 { failed = errors.Join(failed, err); return n }
	parked, err := sh.Sagas.Parked(ctx)
	failed = errors.Join(failed, err)
	counts, err := s.Inventory.Counts(ctx)
	failed = errors.Join(failed, err)

	check("every order is completed or cancelled", orders[order.Completed]+orders[order.Cancelled], o.orders)
	check("the read model has every order once", total, o.orders)
	check("every saga has ended, none is parked", len(parked), 0)
	check("money captured = orders completed", cents(s.Payment.Sum(ctx)), money[order.Completed])
	check("the gateway has captured the same", cents(s.Gateway.Captured(ctx)), money[order.Completed])
	check("no money is held for a cancelled order", count(s.Payment.Open(ctx)), 0)
	check("no product is reserved any more", counts.Reserved, int64(0))
	check("products available and sold = stock", counts.Available+counts.Sold, stock)
	different, sold, err := o.compare(ctx, sh)
	failed = errors.Join(failed, err)
	check("products sold = those of orders completed", counts.Sold, sold)
	check("shipments dispatched = orders completed", count(s.Shipping.Count(ctx, shipping.Dispatched)), orders[order.Completed])
	check("no shipment is planned for a cancelled order", count(s.Shipping.Count(ctx, shipping.Planned)), 0)
	check("every order that the log has is in the state of the read model", different, 0)
	return good, failed
}

// compare returns the number of orders whose state by their events is not that of the read
// model, and how many products the completed ones have.
func (o *options) compare(ctx context.Context, sh *shop.Shop) (different int, sold int64, err error) {
	for n := 1; n <= o.orders; n++ {
		id := fmt.Sprintf("%08d", n)
		by, err := sh.Order(ctx, id)
		if err != nil {
			return 0, 0, err
		}
		d, found, err := sh.Details(ctx, id)
		if err != nil {
			return 0, 0, err
		}
		if !found || d.Status != by.Status || d.Cents != by.Placement.Total() {
			different++
		}
		for _, l := range by.Placement.Lines {
			if by.Status == order.Completed {
				sold += l.Quantity
			}
		}
	}
	return different, sold, nil
}
