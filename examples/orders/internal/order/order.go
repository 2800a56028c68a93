// Package order is what an order is: its states, the events that change them, and the
// rules. An order is the stream order/<id> of the event log.
package order

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Status is the state of an order. What changes it is in the table of [next].
type Status string

// The states of an order.
const (
	Unknown    Status = ""
	Pending    Status = "pending"
	Validated  Status = "validated"
	Authorized Status = "payment authorized"
	Reserved   Status = "inventory reserved"
	Shipped    Status = "shipped"
	Completed  Status = "completed"
	Cancelled  Status = "cancelled"
)

// Ended reports whether nothing comes after it.
func (s Status) Ended() bool { return s == Completed || s == Cancelled }

// Types of the events of an order.
const (
	Placed            = "OrderPlaced" // with a Placement
	WasValidated      = "OrderValidated"
	PaymentAuthorized = "PaymentAuthorized"
	InventoryReserved = "InventoryReserved"
	WasShipped        = "OrderShipped"
	WasCompleted      = "OrderCompleted"
	WasCancelled      = "OrderCancelled" // with a Cancellation
)

// next has the state after each event, and the states in which it may come.
var next = map[string]struct {
	to   Status
	from []Status
}{
	Placed:            {Pending, []Status{Unknown}},
	WasValidated:      {Validated, []Status{Pending}},
	PaymentAuthorized: {Authorized, []Status{Validated}},
	InventoryReserved: {Reserved, []Status{Authorized}},
	WasShipped:        {Shipped, []Status{Reserved}},
	WasCompleted:      {Completed, []Status{Shipped}},
	WasCancelled:      {Cancelled, []Status{Pending, Validated, Authorized, Reserved, Shipped}},
}

// Types returns the types of the events of an order.
func Types() []string { return slices.Sorted(maps.Keys(next)) }

// Becomes returns the state of an order after an event, and whether the event is one of
// an order.
func Becomes(kind string) (Status, bool) {
	change, is := next[kind]
	return change.to, is
}

// Line is a product of an order.
type Line struct {
	Product  string `json:"product"`
	Quantity int64  `json:"quantity"`
	Price    int64  `json:"price"` // of one, in cents
}

// Placement is what a customer orders.
type Placement struct {
	Customer string `json:"customer"`
	Card     string `json:"card"`    // a token of the payment gateway
	Country  string `json:"country"` // of the address
	Lines    []Line `json:"lines"`
}

// Total returns the price of all lines, in cents.
func (p Placement) Total() (cents int64) {
	for _, l := range p.Lines {
		cents += l.Quantity * l.Price
	}
	return cents
}

// Bounds of an order.
const (
	maxLines    = 100
	maxQuantity = 10_000
	maxPrice    = 100_000_000
	maxText     = 200
)

// Validate returns an error that names all problems of what a customer has sent.
func (p Placement) Validate() error {
	var problems []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	for name, text := range map[string]string{"customer": p.Customer, "card": p.Card, "country": p.Country} {
		_, err := lockkeys.New("x", text)
		add(err != nil || len(text) > maxText, "%s %.20q must have 1 to %d bytes", name, text, maxText)
	}
	add(len(p.Lines) == 0 || len(p.Lines) > maxLines, "there are %d lines: there must be 1 to %d", len(p.Lines), maxLines)
	seen := map[string]bool{}
	for i, l := range p.Lines {
		_, err := lockkeys.New("x", l.Product)
		add(err != nil || len(l.Product) > maxText, "line %d: product %.20q must have 1 to %d bytes", i+1, l.Product, maxText)
		add(seen[l.Product], "line %d: product %.20q is there twice", i+1, l.Product)
		add(l.Quantity < 1 || l.Quantity > maxQuantity, "line %d: quantity %d must be 1 to %d", i+1, l.Quantity, maxQuantity)
		add(l.Price < 1 || l.Price > maxPrice, "line %d: price %d must be 1 to %d cents", i+1, l.Price, maxPrice)
		seen[l.Product] = true
	}
	return errors.Join(problems...)
}

// Cancellation is why an order was cancelled.
type Cancellation struct {
	Reason string `json:"reason"`
}

// Order is an order, made of its events.
type Order struct {
	Status    Status    `json:"status"`
	Placement Placement `json:"placement"`
	Reason    string    `json:"reason,omitempty"` // why it was cancelled
}

// ErrTransition is wrapped by the error for an event that cannot come in the state that
// the order is in.
var ErrTransition = errors.New("order: not possible in this state")

// Apply returns the order after an event. Events of other types on its stream, those of
// its checkout, leave it as it is.
func Apply(o Order, e *ordering.Event) (Order, error) {
	change, is := next[e.Type]
	if !is {
		return o, nil
	}
	if !slices.Contains(change.from, o.Status) {
		return o, fmt.Errorf("%w: %s, when it is %q", ErrTransition, e.Type, o.Status)
	}
	o.Status = change.to
	var err error
	switch e.Type {
	case Placed:
		err = json.Unmarshal(e.Payload, &o.Placement)
	case WasCancelled:
		var c Cancellation
		err = json.Unmarshal(e.Payload, &c)
		o.Reason = c.Reason
	}
	return o, err
}

// ErrID is wrapped by the error for an ID that no order can have: a saga has it too, and a
// database keeps it.
var ErrID = fmt.Errorf("order: an ID must have 1 to %d bytes of UTF-8, without control characters", maxText)

// Stream returns the stream of an order.
func Stream(id string) (lockkeys.Key, error) {
	if id == "" || len(id) > maxText || !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return lockkeys.Key{}, fmt.Errorf("%w: %.80q", ErrID, id)
	}
	return lockkeys.New("order", id)
}

// Event returns an event of an order.
func Event(kind, id string, payload any) (*ordering.Event, error) {
	stream, err := Stream(id)
	if err != nil {
		return nil, err
	}
	e := &ordering.Event{Type: kind, CorrelationID: id, Positions: []ordering.Position{{Stream: stream}}}
	if payload != nil {
		e.Payload, err = json.Marshal(payload)
	}
	return e, err
}
