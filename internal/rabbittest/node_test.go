package rabbittest_test

import (
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/internal/rabbittest"
)

// node is what the tests share; one at a time uses it.
var node = sync.OnceValues(func() (*rabbittest.Node, error) { return rabbittest.New() })

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	flag.Parse()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if n, err := node(); err == nil {
			_ = n.Close()
		}
		os.Exit(code)
	}))
}

func shared(t *testing.T) *rabbittest.Node {
	t.Helper()
	n, err := node()
	require.NoError(t, err)
	return n
}

// open opens a channel with confirms, on a connection of its own.
func open(t *testing.T, url string) (*amqp.Connection, *amqp.Channel) {
	t.Helper()
	c, err := amqp.Dial(url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	ch, err := c.Channel()
	require.NoError(t, err)
	require.NoError(t, ch.Confirm(false))
	return c, ch
}

// declare makes a queue that survives the node.
func declare(t *testing.T, ch *amqp.Channel) (queue string) {
	t.Helper()
	return declareAs(t, ch, nil)
}

func declareAs(t *testing.T, ch *amqp.Channel, args amqp.Table) (queue string) {
	t.Helper()
	queue = rabbittest.Name(t)
	_, err := ch.QueueDeclare(queue, true, false, false, false, args)
	require.NoError(t, err)
	return queue
}

// receive returns the next value of a channel.
func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		require.Fail(t, "nothing came")
	}
	return v
}

// publish sends a message and returns what knows whether it is kept.
func publish(t *testing.T, ch *amqp.Channel, queue, body string) *amqp.DeferredConfirmation {
	t.Helper()
	confirm, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, true, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)})
	require.NoError(t, err)
	return confirm
}

func requireKept(t *testing.T, confirm *amqp.DeferredConfirmation) {
	t.Helper()
	receive(t, confirm.Done())
	require.True(t, confirm.Acked())
}

// requireNext takes the next message off a queue.
func requireNext(t *testing.T, ch *amqp.Channel, queue, body string) {
	t.Helper()
	d, ok, err := ch.Get(queue, true)
	require.NoError(t, err)
	require.True(t, ok, "the queue is empty")
	require.Equal(t, body, string(d.Body))
}

func TestANodeThatEndsComesBackWithWhatWasConfirmed(t *testing.T) {
	for name, end := range map[string]func(*rabbittest.Node) error{
		"killed":  (*rabbittest.Node).Kill,
		"stopped": (*rabbittest.Node).Stop,
	} {
		t.Run(name, func(t *testing.T) {
			n := shared(t)
			link := n.Link(t)
			before, ch := open(t, n.URL())
			lost := before.NotifyClose(make(chan *amqp.Error, 1))
			queues := []string{declare(t, ch), declareAs(t, ch, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})}
			require.NoError(t, n.Sync())
			for _, queue := range queues {
				requireKept(t, publish(t, ch, queue, "kept"))
			}

			require.Error(t, n.Restart(), "it runs")
			require.NoError(t, end(n))
			require.Error(t, end(n), "it does not run")
			require.NotNil(t, receive(t, lost))
			_, err := amqp.Dial(n.URL())
			require.ErrorContains(t, err, "connection refused")
			_, err = amqp.Dial(link.URL())
			require.Error(t, err)

			require.NoError(t, n.Restart())
			_, ch = open(t, link.URL())
			for _, queue := range queues {
				requireNext(t, ch, queue, "kept")
			}
		})
	}
}

func TestAnAlarmHoldsPublishersUntilItIsCleared(t *testing.T) {
	n := shared(t)
	c, ch := open(t, n.URL())
	queue := declare(t, ch)
	blocked := c.NotifyBlocked(make(chan amqp.Blocking, 2))

	require.NoError(t, n.RaiseAlarm())
	confirm := publish(t, ch, queue, "held")
	require.True(t, receive(t, blocked).Active)
	select {
	case <-confirm.Done():
		require.Fail(t, "confirmed under the alarm")
	default:
	}
	require.NoError(t, n.ClearAlarm())
	require.False(t, receive(t, blocked).Active)
	requireKept(t, confirm)
	requireNext(t, ch, queue, "held")
}

func TestAFrozenNodeAnswersWhenItThaws(t *testing.T) {
	n := shared(t)
	_, ch := open(t, n.URL())
	queue := declare(t, ch)
	require.NoError(t, n.Freeze())
	confirm := publish(t, ch, queue, "held")
	_, err := amqp.DialConfig(n.URL(), amqp.Config{Dial: amqp.DefaultDial(100 * time.Millisecond)})
	require.ErrorContains(t, err, "i/o timeout")
	select {
	case <-confirm.Done():
		require.Fail(t, "confirmed by a frozen node")
	default:
	}
	require.NoError(t, n.Thaw())
	requireKept(t, confirm)
	requireNext(t, ch, queue, "held")
}

func TestAQueueIsLookedInto(t *testing.T) {
	n := shared(t)
	_, ch := open(t, n.URL())
	queue := declareAs(t, ch, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum, "x-single-active-consumer": true})
	requireKept(t, publish(t, ch, queue, "1"))
	requireKept(t, publish(t, ch, queue, "2"))
	requireLook := func(messages, consumers int) {
		t.Helper()
		is := func(want int, look func(string) (int, error)) {
			t.Helper()
			got, err := look(queue)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		is(messages, n.Count)
		is(consumers, n.Consumers)
	}
	requireLook(2, 0)
	var first <-chan amqp.Delivery
	for i := range 2 {
		_, ch := open(t, n.URL())
		deliveries, err := ch.ConsumeWithContext(t.Context(), queue, "", false, false, false, false, nil)
		require.NoError(t, err)
		if i == 0 {
			first = deliveries
		}
	}
	receive(t, first)
	d := receive(t, first)
	requireLook(2, 2)
	require.NoError(t, d.Ack(true))
	require.Eventually(t, func() bool {
		left, err := n.Count(queue)
		return err == nil && left == 0
	}, time.Minute, 10*time.Millisecond)
	_, err := n.Count("no such queue")
	require.ErrorContains(t, err, "not_found")
}

func TestNamesAreUnlikeEachOther(t *testing.T) {
	require.NotEqual(t, rabbittest.Name(t), rabbittest.Name(t))
	require.Contains(t, rabbittest.Name(t), t.Name())
}

func TestANodeThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := rabbittest.New("no_such_setting = 1")
	require.ErrorContains(t, err, "no_such_setting")
}
