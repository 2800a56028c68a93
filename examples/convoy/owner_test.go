package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/convoy/internal/ledger"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

const order = "customer/1/order/1"

// A queue goes from one worker to another and back, when each of them loses its
// connection for a while. The first one must not rely on what it knows of the
// order from its first term.
func TestTheQueueComesBack(t *testing.T) {
	t.Parallel()
	o := newOptions(t, "-queues", "1", "-latency", "0")
	store := o.openFor(t)
	s, err := servers()
	require.NoError(t, err)
	join := func(name string) (link *rabbittest.Link, inLine func(channel uint64)) {
		link = s.rabbit.Link(t)
		worker := *o
		worker.name, worker.AMQP = name, link.URL()
		sequencer := func(ctx context.Context) (*ordering.Sequencer[ledger.Transaction], error) {
			return worker.beginTerm(ctx, store, 0)
		}
		consumer, err := rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{
			Endpoint: worker.Endpoint(), Queue: o.Partitions().QueueName(0), Receiver: rabbitmq.Owner(term(sequencer)),
		})
		require.NoError(t, err)
		begin(t, consumer.Run)
		inLine = func(channel uint64) {
			require.Eventually(t, func() bool { return consumer.Ready() == nil && consumer.Stats().Channels >= channel }, waitAtMost, tick)
		}
		inLine(1)
		return link, inLine
	}
	o.declare(t)
	a, aInLine := join("a")
	b, _ := join("b")
	o.send(t, numbered{ledger.Transaction{ID: "create", Op: ledger.Create, Order: order}, 1})
	requireRuns(t, store, "create")

	a.Cut()
	o.send(t, numbered{ledger.Transaction{ID: "add", Op: ledger.Add, Order: order, Amount: 1}, 2},
		numbered{ledger.Transaction{ID: "modify", Op: ledger.Modify, Of: "add", Order: order, Amount: 2}, 3})
	requireRuns(t, store, "create", "add", "modify")

	a.Mend()
	aInLine(2)
	b.Cut()
	o.send(t, numbered{ledger.Transaction{ID: "close", Op: ledger.Closing, Order: order}, 4})
	requireRuns(t, store, "create", "add", "modify", "close")
	b.Mend()
	assert.Equal(t, []string{"a", "b", "a"}, slices.Compact(ownersOf(t, store, 0)))
	parked, err := store.Reader("").Parked(t.Context())
	require.NoError(t, err)
	assert.Empty(t, parked)
}

// The last transaction of an order is marked. What comes after it is refused,
// by the outbox and by the workers, and nothing is left of the order in memory.
func TestTheEndOfAnOrder(t *testing.T) {
	t.Parallel()
	o := newOptions(t, "-queues", "1", "-latency", "0", "-home", "0")
	store := o.openFor(t)
	var last *ordering.Sequencer[ledger.Transaction]
	sequencer := func(ctx context.Context) (_ *ordering.Sequencer[ledger.Transaction], err error) {
		last, err = o.beginTerm(ctx, store, 0)
		return last, err
	}
	end := begin(t, func(ctx context.Context) error {
		return own(ctx, sequencer, rabbitmq.ConsumerConfig{
			Endpoint: o.Endpoint(), Queue: o.Partitions().QueueName(0), DeadLetter: rabbitmq.Address{Key: o.DeadQueue()},
		})
	})
	o.send(t,
		numbered{ledger.Transaction{ID: "create", Op: ledger.Create, Order: order}, 1},
		numbered{ledger.Transaction{ID: "close", Op: ledger.Closing, Order: order}, 2},
		numbered{ledger.Transaction{ID: "late", Op: ledger.Add, Order: order}, 3},
		numbered{ledger.Transaction{ID: "close", Op: ledger.Closing, Order: order}, 2}, // a redelivery is no news
		numbered{ledger.Transaction{ID: "other", Op: ledger.Create, Order: "customer/1/order/2"}, 1},
	)
	require.Eventually(t, func() bool { return len(runsOf(t, store)) == 3 }, waitAtMost, tick)
	assert.ElementsMatch(t, []string{"create", "close", "other"}, runsOf(t, store))
	require.Eventually(t, func() bool { n, err := o.Waiting(t.Context(), o.DeadQueue()); return err == nil && n[0] >= 1 }, waitAtMost, tick)
	end()
	assert.Equal(t, 1, last.Stats().Streams, "the other order")
	letters, err := o.DeadLetters(t.Context())
	require.NoError(t, err)
	require.Len(t, letters, 1)
	assert.Contains(t, letters[0], "late")
	assert.Contains(t, letters[0], ordering.ErrEnded.Error())
	assert.Contains(t, letters[0], o.Partitions().QueueName(0))
}

// A transaction that an order's state does not allow is recorded and passed by;
// its order goes on.
func TestATransactionThatCannotBeApplied(t *testing.T) {
	t.Parallel()
	o := newOptions(t, "-queues", "1", "-latency", "0", "-home", "0")
	store := o.openFor(t)
	end := begin(t, o.work)
	o.send(t,
		numbered{ledger.Transaction{ID: "create", Op: ledger.Create, Order: order}, 1},
		numbered{ledger.Transaction{ID: "what", Op: ledger.Modify, Of: "nothing", Order: order}, 2},
		numbered{ledger.Transaction{ID: "add", Op: ledger.Add, Order: order}, 3},
	)
	requireRuns(t, store, "create", "add")
	end()
	term, err := store.Begin(t.Context(), ordering.Consumer{Partition: "of the test"})
	require.NoError(t, err)
	known, err := term.Look(t.Context(), []ordering.Position{{Stream: ledger.OrderKey(1, 1), Number: 2}})
	require.NoError(t, err)
	require.NotNil(t, known[0].Job)
	assert.Equal(t, ordering.StatusDeadLettered, known[0].Job.Status)
	assert.Contains(t, known[0].Job.Error, `order customer/1/order/1 is not in a state for "modify"`)
}

// A transaction of two orders in different partitions is refused when it is
// published, with what to do about it; one of two orders of a customer is not.
func TestSpanningPartitions(t *testing.T) {
	t.Parallel()
	o := newOptions(t, "-queues", "4")
	o.declare(t)
	span := ledger.Transaction{ID: "span", Op: ledger.Move, Of: "x", Order: order}
	for customer := 2; span.To == ""; customer++ {
		if other := ledger.OrderKey(customer, 1); rabbitmq.Partition(other, 4) != rabbitmq.Partition(ledger.OrderKey(1, 1), 4) {
			span.To = other.String()
		}
	}
	e, err := span.Event()
	require.NoError(t, err)
	e.Positions[0].Number, e.Positions[1].Number = 1, 1
	err = o.Publish(t.Context(), o.Partitions().Route, e)
	require.ErrorIs(t, err, rabbitmq.ErrSpansPartitions)
	require.True(t, dispatcher.IsPermanent(err))
	require.ErrorContains(t, err, "give the streams their first 2 segments in common, send one event to each, or have one partition")
	names := make([]string, 4)
	for i := range names {
		names[i] = o.Partitions().QueueName(i)
	}
	counts, err := o.Waiting(t.Context(), names...)
	require.NoError(t, err)
	assert.Equal(t, []int{0, 0, 0, 0}, counts)

	span.To = "customer/1/order/2"
	e, err = span.Event()
	require.NoError(t, err)
	e.Positions[0].Number, e.Positions[1].Number = 1, 1
	require.NoError(t, o.Publish(t.Context(), o.Partitions().Route, e))
}

// What cannot be read in a ledger is recorded, and the rest goes its way. A
// ledger that cannot be read at all is set aside with those behind it, for
// somebody to look at.
func TestBadLedgers(t *testing.T) {
	t.Parallel()
	o := newOptions(t, "-queues", "1", "-latency", "0", "-home", "0")
	store := o.openFor(t)
	begin(t, o.work)
	begin(t, o.process)
	var good ledger.Message
	require.NoError(t, json.Unmarshal([]byte(`{"transactions":[
		{"id":"1","op":"create","order":"customer/1/order/1"},
		{"id":"2","op":"destroy","order":"customer/1/order/1"},
		{"id":"3","op":"add","order":"customer"},
		{"id":"4","op":"add","order":"customer/%zz/order/1"},
		{"id":"5","op":"modify","of":"\u0000","order":"customer/1/order/1"},
		{"id":"\u0000","op":"add","order":"customer/1/order/1"},
		{"id":"7","op":"move","order":"customer/1/order/1","to":"customer/1/order/1"},
		{"id":"8","op":"close","order":"customer/1/order/1"}]}`), &good))
	require.NoError(t, o.PublishLedgers(t.Context(), []ledger.Message{good}))
	requireRuns(t, store, "1", "8")
	refused := column(t, store, `SELECT transaction FROM convoy_refusals ORDER BY entry`)
	assert.Equal(t, []string{"2", "3", "4", "5", "\uFFFD", "7"}, refused)

	toLedger := func(*ordering.Event) (exchange, key string, err error) { return "", o.LedgerQueue(), nil }
	at := func(n uint64) []ordering.Position { return []ordering.Position{{Stream: ledger.Stream, Number: n}} }
	require.NoError(t, o.Publish(t.Context(), toLedger, &ordering.Event{Payload: []byte("no JSON"), Positions: at(2)}))
	require.Eventually(t, func() bool { p, err := store.Reader("").Parked(t.Context()); return err == nil && len(p) == 1 }, waitAtMost, tick)
	parked, err := store.Reader("").Parked(t.Context())
	require.NoError(t, err)
	assert.Contains(t, parked[0].Error, "ledger message: invalid character")
}

// Processes that do not agree on the number of partitions do not start.
func TestAnotherNumberOfPartitions(t *testing.T) {
	t.Parallel()
	o := newOptions(t, "-queues", "4")
	o.openFor(t)
	more := *o
	more.Queues = 5
	_, err := more.Open(t.Context())
	require.ErrorContains(t, err, "-queues is 5, and the queues were filled with 4 in mind")
	require.ErrorContains(t, more.work(t.Context()), "let the workers empty all queues")
}

// The error of a term that cannot begin ends the consumer, and the message goes
// back.
func TestATermThatCannotBegin(t *testing.T) {
	t.Parallel()
	o := newOptions(t, "-queues", "1")
	o.openFor(t)
	broken := errors.New("broken")
	sequencer := func(context.Context) (*ordering.Sequencer[ledger.Transaction], error) { return nil, broken }
	o.send(t, numbered{ledger.Transaction{ID: "create", Op: ledger.Create, Order: order}, 1})
	queue := o.Partitions().QueueName(0)
	err := own(t.Context(), sequencer, rabbitmq.ConsumerConfig{Endpoint: o.Endpoint(), Queue: queue})
	require.ErrorIs(t, err, broken)
	require.Eventually(t, func() bool { n, err := o.Waiting(t.Context(), queue); return err == nil && n[0] == 1 }, waitAtMost, tick)
}
