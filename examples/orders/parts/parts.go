// Package parts has those parts of the shop that its benchmarks, in bench/orders, put
// together in other ways: the shop's packages are internal.
package parts

import (
	"github.com/interlock-go/interlock/examples/orders/internal/checkout"
	"github.com/interlock-go/interlock/examples/orders/internal/inventory"
	"github.com/interlock-go/interlock/examples/orders/internal/order"
	"github.com/interlock-go/interlock/examples/orders/internal/payment"
	"github.com/interlock-go/interlock/examples/orders/internal/services"
	"github.com/interlock-go/interlock/examples/orders/internal/shipping"
	"github.com/interlock-go/interlock/examples/orders/internal/shop"
	"github.com/interlock-go/interlock/examples/orders/internal/views"
)

// What is ordered, and its checkout.
type (
	Placement = order.Placement
	Line      = order.Line
	Status    = order.Status
	State     = checkout.State
)

// The states of an order, and the types of its events.
const (
	Pending   = order.Pending
	Reserved  = order.Reserved
	Paid      = order.Authorized
	Completed = order.Completed

	OrderPlaced       = order.Placed
	OrderValidated    = order.WasValidated
	PaymentAuthorized = order.PaymentAuthorized
	InventoryReserved = order.InventoryReserved
	OrderShipped      = order.WasShipped
	OrderCompleted    = order.WasCompleted
)

// Requests and answers of the services.
type (
	PaymentRequest   = payment.Request
	PaymentAnswer    = payment.Answer
	InventoryRequest = inventory.Request
	InventoryAnswer  = inventory.Answer
	ShippingRequest  = shipping.Request
	ShippingAnswer   = shipping.Answer
)

// The services, the shop, and its read models.
type (
	Options  = services.Options
	Services = services.Services
	Shop     = shop.Shop
	Views    = views.Views
)

// What opens them, and what a checkout is made of.
var (
	OpenServices = services.Open
	OpenShop     = shop.Open
	StartViews   = views.Start
	Event        = order.Event
	Becomes      = order.Becomes
	Checkout     = checkout.Definition
	Means        = checkout.Means
)
