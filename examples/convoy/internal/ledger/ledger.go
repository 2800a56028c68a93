// Package ledger is about ledger messages, with transactions of many orders: what is in them,
// and how to make some up.
package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Message is a ledger message: transactions of many orders, in the order in
// which they are to be applied to each.
type Message struct {
	Transactions []Transaction `json:"transactions"`
}

// Transaction is one operation on an order.
type Transaction struct {
	// ID is the transaction's own.
	ID string `json:"id"`
	Op Op     `json:"op"`
	// Order is the key of the order, as in customer/7/order/15. The orders of
	// a customer are in one partition.
	Order string `json:"order"`
	// To is the other order, of a move.
	To string `json:"to,omitempty"`
	// Of is the earlier transaction that is modified or moved.
	Of string `json:"of,omitempty"`
	// Amount is in cents, of an addition or a modification.
	Amount int64 `json:"amount,omitempty"`
}

// Op is what a transaction does.
type Op string

// Operations.
const (
	Create  Op = "create"
	Add     Op = "add"
	Modify  Op = "modify" // gives an earlier transaction another amount
	Move    Op = "move"   // moves an earlier transaction to another order
	Closing Op = "close"  // is the last one of its order
)

// Stream is the stream of the ledger messages.
var Stream = lockkeys.Must("ledger")

// OrderKey is the stream of an order. Its first two segments, the customer,
// decide the partition.
func OrderKey(customer, order int) lockkeys.Key {
	return lockkeys.Must("customer", fmt.Sprint(customer), "order", fmt.Sprint(order))
}

// Event returns the transaction as an event that has no numbers yet.
func (t Transaction) Event() (*ordering.Event, error) {
	payload, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	e := &ordering.Event{ID: t.ID, Type: string(t.Op), Payload: payload}
	if strings.Contains(t.Of, "\x00") {
		return nil, fmt.Errorf("transaction %.80q: of: %w", t.ID, ordering.ErrText)
	}
	if t.ID == "" {
		return nil, errors.New("a transaction without an ID: nobody could tell it from another one")
	}
	orders := []string{t.Order}
	switch t.Op {
	case Create, Add, Modify, Closing:
	case Move:
		orders = append(orders, t.To)
	default:
		return nil, fmt.Errorf("transaction %.80q: %.80q is no operation", t.ID, t.Op)
	}
	for _, order := range orders {
		stream, err := lockkeys.Parse(order)
		if err != nil {
			return nil, fmt.Errorf("transaction %.80q: order %.80q: %w", t.ID, order, err)
		}
		if stream.Depth() != 4 {
			return nil, fmt.Errorf("transaction %.80q: order %.80q is not like customer/7/order/15", t.ID, order)
		}
		e.Positions = append(e.Positions, ordering.Position{Stream: stream, End: t.Op == Closing})
	}
	return e, nil
}
