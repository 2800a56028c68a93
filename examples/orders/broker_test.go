package main

import (
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/rabbittest"
)

// node is the broker of the tests, which take turns; endNode ends it, if it was started.
var (
	node = sync.OnceValues(func() (n *rabbittest.Node, err error) {
		if n, err = rabbittest.New(); err == nil {
			endNode = n.Close
		}
		return n, err
	})
	endNode = func() error { return nil }
)

// queues are those of the services.
var queues = []string{"orders.payment", "orders.inventory", "orders.shipping"}

// broker returns a broker, of which the queues go with the test.
func broker(t *testing.T) *rabbittest.Node {
	t.Helper()
	n, err := node()
	require.NoError(t, err)
	t.Cleanup(func() {
		conn, err := amqp.Dial(n.URL())
		require.NoError(t, err)
		defer conn.Close()
		ch, err := conn.Channel()
		require.NoError(t, err)
		for _, name := range queues {
			_, err := ch.QueueDelete(name, false, false, false)
			assert.NoError(t, err)
		}
	})
	return n
}

// queued returns the messages that wait in the queues.
func queued(t *testing.T, n *rabbittest.Node) map[string]int {
	t.Helper()
	conn, err := amqp.Dial(n.URL())
	require.NoError(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	require.NoError(t, err)
	counts := map[string]int{}
	for _, name := range queues {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		require.NoError(t, err)
		counts[name] = q.Messages
	}
	return counts
}
