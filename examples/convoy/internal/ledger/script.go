package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// Shape is what a made-up ledger is like.
type Shape struct {
	Orders  int
	Length  int    // transactions of an order, about
	Ledgers int    // messages that the transactions come in
	Queues  int    // partitions: a mistake spans some
	Seed    uint64 // the same one makes the same ledger
}

// Script is a made-up ledger, and what is to become of it.
type Script struct {
	Ledgers []Message
	Orders  map[string]*Plan // by stream
	Good    int              // transactions that must have an effect
	Refused []string         // transactions that the processor must refuse
	Late    lockkeys.Key     // an order that has ended, for a transaction that comes too late
}

// Plan is what an order is to be in the end.
type Plan struct {
	customer int
	Stream   lockkeys.Key
	left     int              // transactions to make before it is closed
	History  []string         // all its transactions, in order
	Lines    map[string]int64 // amounts by transaction
	names    []string         // of Lines
}

// Runs is how often an order is to be changed: a move changes two.
func (s *Script) Runs() (n int) {
	for _, order := range s.Orders {
		n += len(order.History)
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
	Script
	all    []Transaction
	active []*Plan
}

// Write makes up a ledger whose orders are interleaved.
func (o Shape) Write() *Script {
	w := &writer{Rand: rand.New(rand.NewPCG(o.Seed, 0)), Script: Script{Orders: map[string]*Plan{}}}
	for made := 0; made < o.Orders || len(w.active) > 0; {
		for ; made < o.Orders && len(w.active) < underWay; made++ {
			customer := made / ordersPerCustomer
			order := &Plan{customer: customer, Stream: OrderKey(customer, made), left: 1 + w.IntN(2*o.Length), Lines: map[string]int64{}}
			w.Orders[order.Stream.String()] = order
			w.active = append(w.active, order)
		}
		w.step(w.active[w.IntN(len(w.active))])
		if len(w.all) == o.Orders*o.Length/2 {
			w.mistakes(o.Queues)
		}
	}
	size := (len(w.all) + o.Ledgers - 1) / o.Ledgers
	for part := range slices.Chunk(w.all, size) {
		w.Ledgers = append(w.Ledgers, Message{part})
	}
	return &w.Script
}

// step makes the next transaction of an order.
func (w *writer) step(order *Plan) {
	t := Transaction{Op: Add, Order: order.Stream.String(), Amount: w.Int64N(100_000)}
	switch {
	case len(order.History) == 0:
		t.Op, t.Amount = Create, 0
	case order.left == 0:
		t.Op, t.Amount = Closing, 0
		w.Late = order.Stream
		w.active = slices.DeleteFunc(w.active, func(other *Plan) bool { return other == order })
	case len(order.names) > 0 && w.IntN(4) == 0:
		t.Op, t.Of = Modify, order.names[w.IntN(len(order.names))]
	case len(order.names) > 0 && w.IntN(4) == 0:
		if to := w.sibling(order); to != nil {
			t.Op, t.Of, t.To, t.Amount = Move, order.names[w.IntN(len(order.names))], to.Stream.String(), 0
		}
	}
	order.left--
	w.record(t)
}

// sibling is another open order of the same customer, if there is one.
func (w *writer) sibling(order *Plan) *Plan {
	for _, other := range w.active {
		if other != order && other.customer == order.customer && len(other.History) > 0 {
			return other
		}
	}
	return nil
}

// record gives the transaction its ID and notes what is to come of it.
func (w *writer) record(t Transaction) {
	t.ID = fmt.Sprintf("t%d", len(w.all)+1)
	w.all = append(w.all, t)
	w.Good++
	order := w.Orders[t.Order]
	order.History = append(order.History, t.ID)
	switch t.Op {
	case Add:
		order.Lines[t.ID] = t.Amount
		order.names = append(order.names, t.ID)
	case Modify:
		order.Lines[t.Of] = t.Amount
	case Move:
		to := w.Orders[t.To]
		to.History = append(to.History, t.ID)
		to.Lines[t.Of] = order.Lines[t.Of]
		to.names = append(to.names, t.Of)
		delete(order.Lines, t.Of)
		order.names = slices.DeleteFunc(order.names, func(name string) bool { return name == t.Of })
	}
}

// mistakes adds transactions that the processor must refuse: one after its
// order's last, one that is there already, and one that spans partitions.
func (w *writer) mistakes(queues int) {
	if !w.Late.IsRoot() {
		w.mistake(Transaction{ID: "late", Op: Add, Order: w.Late.String()})
	}
	if i := slices.IndexFunc(w.active, func(order *Plan) bool { return len(order.History) > 0 }); i >= 0 {
		w.mistake(Transaction{ID: w.active[i].History[0], Op: Add, Order: w.active[i].Stream.String()})
	}
	for i, a := range w.active {
		for _, b := range w.active[i+1:] {
			if rabbitmq.Partition(a.Stream, queues) != rabbitmq.Partition(b.Stream, queues) {
				w.mistake(Transaction{ID: "spanning", Op: Move, Order: a.Stream.String(), To: b.Stream.String(), Of: "t1"})
				return
			}
		}
	}
}

func (w *writer) mistake(t Transaction) {
	w.all = append(w.all, t)
	w.Refused = append(w.Refused, t.ID)
}
