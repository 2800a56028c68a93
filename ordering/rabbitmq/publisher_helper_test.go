package rabbitmq_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// toQueue is a route to a queue.
func toQueue(queue string) func(*ordering.Event) (string, string, error) {
	return func(*ordering.Event) (string, string, error) { return "", queue, nil }
}

// newPublisher makes a publisher that reconnects soon, and closes it with the
// test.
func newPublisher(t testing.TB, cfg rabbitmq.PublisherConfig) *rabbitmq.Publisher {
	t.Helper()
	if cfg.Backoff == (dispatcher.Backoff{}) {
		cfg.Backoff = dispatcher.Backoff{Initial: 2 * time.Millisecond, Max: 50 * time.Millisecond}
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	p, err := rabbitmq.NewPublisher(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = p.Shutdown(ctx)
	})
	return p
}

// newQueue declares a queue that no other test has.
func newQueue(t testing.TB, node *rabbittest.Node, q rabbitmq.Queue) string {
	t.Helper()
	q.Name = rabbittest.Name(t)
	conn := node.Dial(t)
	ch, err := conn.Channel()
	require.NoError(t, err)
	require.NoError(t, rabbitmq.Topology{Queues: []rabbitmq.Queue{q}}.Declare(ch))
	require.NoError(t, conn.Close())
	return q.Name
}

// event returns an event of the stream account/NAME.
func event(account string, number int) *ordering.Event {
	return &ordering.Event{
		Type:      "Deposited",
		Positions: []ordering.Position{{Stream: lockkeys.Must("account", account), Number: uint64(number)}},
		Payload:   fmt.Appendf(nil, "%s %d", account, number),
	}
}

// contents takes all messages out of a queue, and returns them as events.
func contents(t testing.TB, node *rabbittest.Node, queue string) []*ordering.Event {
	t.Helper()
	conn := node.Dial(t)
	defer conn.Close()
	ch, err := conn.Channel()
	require.NoError(t, err)
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	require.NoError(t, err)
	deliveries, err := ch.Consume(queue, "", true, false, false, false, nil)
	require.NoError(t, err)
	events := make([]*ordering.Event, q.Messages)
	for i := range events {
		d, ok := <-deliveries
		require.True(t, ok, "the channel was closed after %d of %d messages", i, q.Messages)
		events[i], err = rabbitmq.EventOf(d)
		require.NoError(t, err)
	}
	return events
}

// firstSeen returns the numbers of each stream in the order in which they are
// there for the first time.
func firstSeen(events []*ordering.Event) map[lockkeys.Key][]int {
	numbers := map[lockkeys.Key][]int{}
	seen := map[ordering.Position]bool{}
	for _, e := range events {
		p := e.Positions[0]
		if !seen[p] {
			seen[p] = true
			numbers[p.Stream] = append(numbers[p.Stream], int(p.Number))
		}
	}
	return numbers
}

// upTo returns 1 to n.
func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i + 1
	}
	return list
}

// requireOrder requires that a queue has the numbers 1 to n of each account,
// each for the first time in order.
func requireOrder(t testing.TB, events []*ordering.Event, accounts, n int) {
	t.Helper()
	numbers := firstSeen(events)
	require.Len(t, numbers, accounts)
	for stream, list := range numbers {
		require.Equal(t, upTo(n), list, "stream %v", stream)
	}
}

// publishNow publishes an event and gives it a minute.
func publishNow(t testing.TB, p *rabbitmq.Publisher, e *ordering.Event) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return p.Publish(ctx, e)
}

// requireServer requires an error with a code of the broker's.
func requireServer(t testing.TB, err error, code int) {
	t.Helper()
	var e *amqp.Error
	require.ErrorAs(t, err, &e)
	assert.True(t, e.Server)
	assert.Equal(t, code, e.Code)
}
