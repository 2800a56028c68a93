package rabbit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/bench/internal/measure"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// window is how many messages of a channel are not confirmed, at most.
const window = 256

// publishing contenders use one channel, and have each message confirmed.
var publishing = []contender{{"amqp091-go", publishBare}, {"interlock", publishInterlock}}

func BenchmarkPublish(b *testing.B) {
	race(b, &broker{url: rabbittest.Start(b).URL()}, publishing)
}

func publishBare(t testing.TB, br *broker, n int, start, stop func()) {
	queue, list := br.queue(t), events(0, n)
	_, ch := br.dial(t)
	require.NoError(t, ch.Confirm(false))
	var open [window]*amqp.DeferredConfirmation
	start()
	for i, e := range list {
		if i >= window {
			require.True(t, open[i%window].Wait())
		}
		c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, true, false, rabbitmq.Message(e))
		require.NoError(t, err)
		open[i%window] = c
	}
	for _, c := range open[:min(n, window)] {
		require.True(t, c.Wait())
	}
	stop()
}

func publishInterlock(t testing.TB, br *broker, n int, start, stop func()) {
	list := events(0, n+1)
	p := br.publisher(t, br.queue(t), 1, window)
	require.NoError(t, p.Publish(t.Context(), list[n])) // it has connected then
	start()
	publishAll(t, p, list[:n])
	stop()
}

// publishAll publishes events and waits for all confirmations.
func publishAll(t testing.TB, p *rabbitmq.Publisher, list []*ordering.Event) {
	results := make(chan error, len(list))
	for _, e := range list {
		p.Go(t.Context(), e, func(err error) { results <- err })
	}
	for range list {
		require.NoError(t, <-results)
	}
}

// BenchmarkPublishers has many publishers who each wait for the confirmation of a message
// before they publish the next, into one queue with one consumer.
func BenchmarkPublishers(b *testing.B) {
	br := &broker{url: rabbittest.Start(b).URL()}
	for _, n := range []int{100, 500} {
		b.Run(fmt.Sprint("publishers=", n), func(b *testing.B) { race(b, br, publishers(n)) })
	}
}

// channels are shared by the publishers, which was measured to be better than one for each.
const channels = 8

func publishers(n int) []contender {
	return []contender{{"amqp091-go", waiting(n, bareChannels)}, {"interlock", waiting(n, func(t testing.TB, br *broker, queue string) send {
		return br.publisher(t, queue, channels, 0).Publish
	})}}
}

// send publishes an event and returns when it is confirmed.
type send func(ctx context.Context, e *ordering.Event) error

func bareChannels(t testing.TB, br *broker, queue string) send {
	conn, _ := br.dial(t)
	free := make(chan *amqp.Channel, channels)
	for range channels {
		ch, err := conn.Channel()
		require.NoError(t, err)
		require.NoError(t, ch.Confirm(false))
		free <- ch
	}
	return func(ctx context.Context, e *ordering.Event) error {
		ch := <-free
		c, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, rabbitmq.Message(e))
		free <- ch
		if err == nil && !c.Wait() {
			err = fmt.Errorf("%s was not confirmed", e.ID)
		}
		return err
	}
}

func waiting(publishers int, open func(testing.TB, *broker, string) send) func(t testing.TB, br *broker, n int, start, stop func()) {
	return func(t testing.TB, br *broker, n int, start, stop func()) {
		queue, list := br.queue(t), events(0, n+1)
		br.drain(t, queue)
		publish := open(t, br, queue)
		require.NoError(t, publish(t.Context(), list[n])) // it has connected then
		took := make([]time.Duration, n)
		errs := make([]error, publishers)
		var all sync.WaitGroup
		start()
		for p := range publishers {
			all.Go(func() {
				for i := p; i < n && errs[p] == nil; i += publishers {
					at := time.Now()
					errs[p] = publish(t.Context(), list[i])
					took[i] = time.Since(at)
				}
			})
		}
		all.Wait()
		stop()
		for _, err := range errs {
			require.NoError(t, err)
		}
		if b, ok := t.(*testing.B); ok {
			b.ReportMetric(measure.Percentile(took, 0.5), "ms-p50")
		}
	}
}

// drain consumes a queue until the end of the test.
func (br *broker) drain(t testing.TB, queue string) {
	conn, ch := br.dial(t)
	require.NoError(t, ch.Qos(1000, 0, false))
	messages, err := ch.Consume(queue, "", false, false, false, false, nil)
	require.NoError(t, err)
	var reading sync.WaitGroup
	reading.Go(func() {
		n := 0
		for m := range messages {
			if n++; n%100 == 0 {
				_ = m.Ack(true)
			}
		}
	})
	t.Cleanup(func() { _ = conn.Close(); reading.Wait() })
}
