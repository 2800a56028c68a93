package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// Messages that are returned again and again come back seldom: the delivery limit
// of RabbitMQ 4 lasts for minutes. Once something is done all goes fast again.
func TestAPauseGrows(t *testing.T) {
	unused := Owner(func(context.Context) (Term, error) { return nil, errors.New("nobody consumes") })
	c, err := NewConsumer(ConsumerConfig{Endpoint: Endpoint{URL: "amqp://localhost"}, Queue: "q", Receiver: unused})
	require.NoError(t, err)
	wait := func(progress bool) time.Duration {
		var p pause
		require.ErrorAs(t, c.pause(errRequeued, progress), &p)
		require.ErrorIs(t, p, errRequeued)
		return p.wait
	}
	for range 3 {
		require.Less(t, wait(true), 200*time.Millisecond)
		var total, last time.Duration
		for range limitOf4 {
			last = wait(false)
			total += last
		}
		require.Greater(t, total, 2*time.Minute)
		require.LessOrEqual(t, last, longestPause*3/2)
	}
	other := errors.New("the connection is gone")
	require.Equal(t, other, c.pause(other, false), "which is tried again soon")
}

// The limit is that of the topology, or the default of RabbitMQ 4.
func TestWhichDeliveryLimit(t *testing.T) {
	for i, test := range []struct {
		queue   Queue
		version string
		limit   int
	}{
		{Queue{Name: "q"}, "3.10.8", 0},
		{Queue{Name: "q"}, "4.1.0", 20},
		{Queue{Name: "other", DeliveryLimit: 7}, "4.1.0", 20},
		{Queue{Name: "q", DeliveryLimit: 7}, "4.1.0", 7},
		{Queue{Name: "q", DeliveryLimit: 7}, "3.10.8", 7},
		{Queue{Name: "q", DeliveryLimit: -5}, "4.1.0", 0},
		{Queue{Name: "q", Args: amqp.Table{argDeliveryLimit: int32(9)}}, "3.10.8", 9},
		{Queue{Name: "q", Type: Classic}, "4.1.0", 0},
		{Queue{Name: "q"}, "", 0},
	} {
		c := &Consumer{cfg: ConsumerConfig{Queue: "q", Endpoint: Endpoint{Topology: Topology{Queues: []Queue{test.queue}}}}}
		conn := &amqp.Connection{Properties: amqp.Table{"version": test.version}}
		require.Equal(t, test.limit, c.deliveryLimit(conn), fmt.Sprint(i))
	}
}

// A log that is seldom says how much it has not said.
func TestSeldom(t *testing.T) {
	var s seldom
	var said []int
	for range 5 {
		s.say(func(missed int) { said = append(said, missed) })
	}
	s.next = time.Now()
	s.say(func(missed int) { said = append(said, missed) })
	require.Equal(t, []int{0, 4}, said)
}
