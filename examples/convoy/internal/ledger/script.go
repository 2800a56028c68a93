package main

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// script is a made-up ledger, and what is to become of it.
type script struct {
	ledgers []ledger
	orders  map[string]*orderPlan // by stream
	good    int                   // transactions that must have an effect
	refused []string              // transactions that the processor must refuse
	late    lockkeys.Key          // an order that has ended, for a transaction that comes too late
}

// orderPlan is what an order is to be in the end.
type orderPlan struct {
	customer int
	stream   lockkeys.Key
	left     int              // transactions to make before it is closed
	history  []string         // all its transactions, in order
	lines    map[string]int64 // amounts by transaction
	names    []string         // of lines
}

// runs is how often an order is to be changed: a move changes two.
func (s *script) runs() (n int) {
	for _, order := range s.orders {
		n += len(order.history)
	}
	return n
}

// Each customer has a few orders, and so many are under way at a time.
const (
	ordersPerCustomer = 2
	underWay          = 64
)

// writer makes up a script, one transaction after the other.
type writer struct {
	*rand.Rand
	script
	all    []transaction
	active []*orderPlan
}

// write makes up a ledger whose orders are interleaved.
func (o *options) write() *script {
	w := &writer{Rand: rand.New(rand.NewPCG(o.seed, 0)), script: script{orders: map[string]*orderPlan{}}}
	for made := 0; made < o.orders || len(w.active) > 0; {
		for ; made < o.orders && len(w.active) < underWay; made++ {
			customer := made / ordersPerCustomer
			order := &orderPlan{customer: customer, stream: orderKey(customer, made), left: 1 + w.IntN(2*o.length), lines: map[string]int64{}}
			w.orders[order.stream.String()] = order
			w.active = append(w.active, order)
		}
		w.step(w.active[w.IntN(len(w.active))])
		if len(w.all) == o.orders*o.length/2 {
			w.mistakes(o.queues)
		}
	}
	size := (len(w.all) + o.ledgers - 1) / o.ledgers
	for part := range slices.Chunk(w.all, size) {
		w.ledgers = append(w.ledgers, ledger{part})
	}
	return &w.script
}

// step makes the next transaction of an order.
func (w *writer) step(order *orderPlan) {
	t := transaction{Op: add, Order: order.stream.String(), Amount: w.Int64N(100_000)}
	switch {
	case len(order.history) == 0:
		t.Op, t.Amount = create, 0
	case order.left == 0:
		t.Op, t.Amount = closing, 0
		w.late = order.stream
		w.active = slices.DeleteFunc(w.active, func(other *orderPlan) bool { return other == order })
	case len(order.names) > 0 && w.IntN(4) == 0:
		t.Op, t.Of = modify, order.names[w.IntN(len(order.names))]
	case len(order.names) > 0 && w.IntN(4) == 0:
		if to := w.sibling(order); to != nil {
			t.Op, t.Of, t.To, t.Amount = move, order.names[w.IntN(len(order.names))], to.stream.String(), 0
		}
	}
	order.left--
	w.record(t)
}

// sibling is another open order of the same customer, if there is one.
func (w *writer) sibling(order *orderPlan) *orderPlan {
	for _, other := range w.active {
		if other != order && other.customer == order.customer && len(other.history) > 0 {
			return other
		}
	}
	return nil
}

// record gives the transaction its ID and notes what is to come of it.
func (w *writer) record(t transaction) {
	t.ID = fmt.Sprintf("t%d", len(w.all)+1)
	w.all = append(w.all, t)
	w.good++
	order := w.orders[t.Order]
	order.history = append(order.history, t.ID)
	switch t.Op {
	case add:
		order.lines[t.ID] = t.Amount
		order.names = append(order.names, t.ID)
	case modify:
		order.lines[t.Of] = t.Amount
	case move:
		to := w.orders[t.To]
		to.history = append(to.history, t.ID)
		to.lines[t.Of] = order.lines[t.Of]
		to.names = append(to.names, t.Of)
		delete(order.lines, t.Of)
		order.names = slices.DeleteFunc(order.names, func(name string) bool { return name == t.Of })
	}
}

// mistakes adds transactions that the processor must refuse: one after its
// order's last, one that is there already, and one that spans partitions.
func (w *writer) mistakes(queues int) {
	if !w.late.IsRoot() {
		w.mistake(transaction{ID: "late", Op: add, Order: w.late.String()})
	}
	if i := slices.IndexFunc(w.active, func(order *orderPlan) bool { return len(order.history) > 0 }); i >= 0 {
		w.mistake(transaction{ID: w.active[i].history[0], Op: add, Order: w.active[i].stream.String()})
	}
	for i, a := range w.active {
		for _, b := range w.active[i+1:] {
			if rabbitmq.Partition(a.stream, queues) != rabbitmq.Partition(b.stream, queues) {
				w.mistake(transaction{ID: "spanning", Op: move, Order: a.stream.String(), To: b.stream.String(), Of: "t1"})
				return
			}
		}
	}
}

func (w *writer) mistake(t transaction) {
	w.all = append(w.all, t)
	w.refused = append(w.refused, t.ID)
}
