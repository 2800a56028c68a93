package order_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/orders/internal/order"
)

// Of all events in all states, those in the table are possible, and no other.
func TestTransitions(t *testing.T) {
	possible := map[order.Status]map[string]order.Status{
		order.Unknown:    {order.Placed: order.Pending},
		order.Pending:    {order.WasValidated: order.Validated, order.WasCancelled: order.Cancelled},
		order.Validated:  {order.PaymentAuthorized: order.Authorized, order.WasCancelled: order.Cancelled},
		order.Authorized: {order.InventoryReserved: order.Reserved, order.WasCancelled: order.Cancelled},
		order.Reserved:   {order.WasShipped: order.Shipped, order.WasCancelled: order.Cancelled},
		order.Shipped:    {order.WasCompleted: order.Completed, order.WasCancelled: order.Cancelled},
		order.Completed:  {},
		order.Cancelled:  {},
	}
	kinds := []string{order.Placed, order.WasValidated, order.PaymentAuthorized, order.InventoryReserved, order.WasShipped, order.WasCompleted, order.WasCancelled}
	for from, by := range possible {
		assert.Equal(t, len(by) == 0, from.Ended(), from)
		for _, kind := range kinds {
			e, err := order.Event(kind, "1", struct{}{})
			require.NoError(t, err)
			got, err := order.Apply(order.Order{Status: from}, e)
			if to, is := by[kind]; is {
				require.NoError(t, err)
				assert.Equal(t, to, got.Status)
				becomes, _ := order.Becomes(kind)
				assert.Equal(t, to, becomes)
			} else {
				require.ErrorIs(t, err, order.ErrTransition, "%s in %s", kind, from)
			}
		}
	}
	other, err := order.Event("StepStarted", "1", nil)
	require.NoError(t, err)
	same, err := order.Apply(order.Order{Status: order.Shipped}, other)
	require.NoError(t, err)
	assert.Equal(t, order.Shipped, same.Status)
}

func TestPlacementsAreChecked(t *testing.T) {
	good := order.Placement{Customer: "c", Card: "k", Country: "DE", Lines: []order.Line{{Product: "p", Quantity: 1, Price: 1}}}
	require.NoError(t, good.Validate())
	for want, change := range map[string]func(p *order.Placement){
		"customer":              func(p *order.Placement) { p.Customer = "" },
		"card":                  func(p *order.Placement) { p.Card = "a\x00b" },
		"country":               func(p *order.Placement) { p.Country = strings.Repeat("x", 201) },
		"there are 0 lines":     func(p *order.Placement) { p.Lines = nil },
		"there are 101 lines":   func(p *order.Placement) { p.Lines = make([]order.Line, 101) },
		"line 1: product":       func(p *order.Placement) { p.Lines[0].Product = "" },
		"line 2: product \"p\"": func(p *order.Placement) { p.Lines = append(p.Lines, p.Lines[0]) },
		"quantity 0":            func(p *order.Placement) { p.Lines[0].Quantity = 0 },
		"quantity 10001":        func(p *order.Placement) { p.Lines[0].Quantity = 10_001 },
		"price -1":              func(p *order.Placement) { p.Lines[0].Price = -1 },
	} {
		p := good
		p.Lines = slices.Clone(good.Lines)
		change(&p)
		require.ErrorContains(t, p.Validate(), want)
	}
	_, err := order.Event(order.Placed, "", nil)
	require.Error(t, err)
}
