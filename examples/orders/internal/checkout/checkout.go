// Package checkout is the saga of an order: it validates it, has it paid and reserved,
// and ships it. What fails before the money is taken is undone; from then on it only goes
// forward.
package checkout

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/orders/internal/inventory"
	"github.com/interlock-go/interlock/examples/orders/internal/order"
	"github.com/interlock-go/interlock/examples/orders/internal/payment"
	"github.com/interlock-go/interlock/examples/orders/internal/shipping"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/eventlog"
	"github.com/interlock-go/interlock/replay/saga"
)

// State is the state of a checkout.
type State struct {
	Order     string          `json:"order"`
	Placement order.Placement `json:"placement"`
	Tracking  string          `json:"tracking,omitempty"`
}

// Services are the services that take part.
type Services struct{ Payment, Inventory, Shipping wire.Caller }

// The steps, in their order.
const (
	validate  = "validate"
	authorize = "authorize"
	reserve   = "reserve"
	plan      = "plan"
	confirm   = "confirm"
	capture   = "capture"
	dispatch  = "dispatch"
)

// products is the key under which the steps that reserve take keys: one for each product,
// so that two orders of it do not get in each other's way.
var products = lockkeys.Must("product")

// patience is how often a service of the shop is asked until an order is cancelled, so
// that a restart of it, or of the broker, is waited out: a minute. Capture and dispatch
// come after the point of no return, and are asked longer, until an operator must decide;
// the customer waits for authorize, which is not asked that often.
const (
	patience     = 40
	noWayBack    = 100
	longestPause = 2 * time.Second
)

// Definition returns the saga. It keeps the order, and shares the customer, from its first
// step to its last: an account of the customer that is closed under customer/<id> waits
// for the orders that are under way.
func Definition(s Services, isolated bool) saga.Definition[State] {
	d := saga.Definition[State]{
		Name: "checkout", Version: 1, Timeout: 10 * time.Minute,
		Steps: []saga.Step[State]{
			{Name: validate, DoTx: func(_ context.Context, _ *sql.Tx, _ saga.Call, st *State) error {
				if err := st.Placement.Validate(); err != nil {
					return dispatcher.Permanent(err)
				}
				return nil
			}},
			{Name: authorize, MaxCalls: 64, Timeout: 5 * time.Second,
				Do: func(ctx context.Context, call saga.Call, st *State) error {
					_, err := pay(ctx, s, "authorize", call, st)
					return err
				},
				Undo: func(ctx context.Context, call saga.Call, st *State) error {
					_, err := pay(ctx, s, "void", call, st)
					return err
				},
				Find: func(ctx context.Context, call saga.Call, st *State) (saga.Found, error) {
					return found(ctx, s, call, st, payment.Authorized)
				}},
			{Name: reserve, MaxAttempts: patience, Timeout: 5 * time.Second, Keys: keysOf, Under: []lockkeys.Key{products},
				Do:   func(ctx context.Context, call saga.Call, st *State) error { return stock(ctx, s, "reserve", call, st) },
				Undo: func(ctx context.Context, call saga.Call, st *State) error { return stock(ctx, s, "release", call, st) }},
			{Name: plan, MaxAttempts: patience, Timeout: 5 * time.Second,
				Do:   func(ctx context.Context, call saga.Call, st *State) error { return ship(ctx, s, "plan", call, st) },
				Undo: func(ctx context.Context, call saga.Call, st *State) error { return ship(ctx, s, "cancel", call, st) }},
			{Name: confirm, MaxAttempts: patience, Timeout: 5 * time.Second, // undone by releasing
				Do: func(ctx context.Context, call saga.Call, st *State) error { return stock(ctx, s, "confirm", call, st) }},
			{Name: capture, Timeout: 5 * time.Second, Pivot: true, MaxAttempts: noWayBack,
				Do: func(ctx context.Context, call saga.Call, st *State) error {
					_, err := pay(ctx, s, "capture", call, st)
					return err
				},
				Find: func(ctx context.Context, call saga.Call, st *State) (saga.Found, error) {
					return found(ctx, s, call, st, payment.Captured)
				}},
			{Name: dispatch, Timeout: 5 * time.Second, MaxAttempts: noWayBack,
				Do: func(ctx context.Context, call saga.Call, st *State) error { return ship(ctx, s, "dispatch", call, st) }},
		},
	}
	for i := range d.Steps {
		d.Steps[i].Backoff = dispatcher.Backoff{Initial: 20 * time.Millisecond, Max: longestPause}
	}
	if isolated {
		d.Keep = func(st *State, claim *lockkeys.Claim) error {
			of, err := order.Stream(st.Order)
			if err != nil {
				return err
			}
			customer, err := lockkeys.New("customer", st.Placement.Customer)
			if err != nil {
				return err
			}
			claim.Exclusive(of)
			claim.Shared(customer)
			return nil
		}
		d.Kept = []lockkeys.Key{lockkeys.Must("order"), lockkeys.Must("customer")}
	}
	return d
}

// certain marks what a service refused for certain, so that it is not tried again.
func certain(err error) error {
	if errors.As(err, new(*wire.Refusal)) {
		return dispatcher.Permanent(err)
	}
	return err
}

func pay(ctx context.Context, s Services, method string, call saga.Call, st *State) (a payment.Answer, err error) {
	err = s.Payment.Call(ctx, method, call.Key(), payment.Request{Order: st.Order, Card: st.Placement.Card, Cents: st.Placement.Total()}, &a)
	return a, certain(err)
}

// found asks whether a payment has come to a state.
func found(ctx context.Context, s Services, call saga.Call, st *State, want payment.Status) (saga.Found, error) {
	a, err := pay(ctx, s, "status", call, st)
	if err != nil || a.Status != want {
		return saga.Unsure, err // the call may still be on its way
	}
	return saga.Happened, nil
}

func stock(ctx context.Context, s Services, method string, call saga.Call, st *State) error {
	var a inventory.Answer
	return certain(s.Inventory.Call(ctx, method, call.Key(), inventory.Request{Order: st.Order, Lines: st.Placement.Lines}, &a))
}

func ship(ctx context.Context, s Services, method string, call saga.Call, st *State) error {
	var a shipping.Answer
	err := s.Shipping.Call(ctx, method, call.Key(), shipping.Request{Order: st.Order, Country: st.Placement.Country}, &a)
	if err == nil && a.Tracking != "" {
		st.Tracking = a.Tracking
	}
	return certain(err)
}

func keysOf(st *State, claim *lockkeys.Claim) error {
	for _, l := range st.Placement.Lines {
		key, err := products.Child(l.Product)
		if err != nil {
			return err
		}
		claim.Exclusive(key)
	}
	return nil
}

// of has what the events of a checkout mean for its order: the type of the order's event,
// by that of the saga's and its step.
var of = map[[2]string]string{
	{saga.StepCompleted, validate}:  order.WasValidated,
	{saga.StepCompleted, authorize}: order.PaymentAuthorized,
	{saga.StepCompleted, reserve}:   order.InventoryReserved,
	{saga.StepCompleted, dispatch}:  order.WasShipped,
	{saga.SagaCompleted, ""}:        order.WasCompleted,
	{saga.SagaCompensated, ""}:      order.WasCancelled,
}

// Means returns the type of the event that an event of a checkout means for its order, if
// any.
func Means(e saga.Entry) (kind string, means bool) {
	kind, means = of[[2]string{e.Type, e.Step}]
	return kind, means
}

// Record returns the function that keeps the events of checkouts in the event log, all but
// intents, each on the stream checkout/<order>, and with it what it means for its order,
// on order/<order>: both in the transaction of the saga.
func Record(log *eventlog.Log, orders eventlog.Aggregate[order.Order]) func(context.Context, *sql.Tx, *ordering.Event) error {
	return func(ctx context.Context, tx *sql.Tx, e *ordering.Event) error {
		if e.Type == saga.StepStarted || e.Type == saga.StepSuspected { // an intent, which the saga's own history has
			return nil
		}
		entry, err := saga.EntryOf(e)
		if err != nil {
			return err
		}
		id := e.CorrelationID
		stream, err := lockkeys.New("checkout", id)
		if err != nil {
			return err
		}
		recorded := *e
		recorded.Positions = []ordering.Position{{Stream: stream}}
		kind, means := Means(entry)
		if !means {
			_, err = log.Append(ctx, tx, []*ordering.Event{&recorded})
			return err
		}
		var payload any
		if kind == order.WasCancelled {
			payload = order.Cancellation{Reason: entry.Error}
		}
		change, err := order.Event(kind, id, payload)
		if err != nil {
			return err
		}
		change.ID, change.CausationID = e.ID+"/order", e.ID
		before, err := orders.LoadIn(ctx, tx, change.Positions[0].Stream)
		if err != nil {
			return err
		}
		if _, err := order.Apply(before.Value, change); err != nil {
			return fmt.Errorf("order %s: %w", id, err)
		}
		_, err = log.Append(ctx, tx, []*ordering.Event{&recorded, change}, before.Version)
		return err
	}
}
