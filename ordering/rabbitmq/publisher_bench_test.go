package rabbitmq_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// BenchmarkPublish compares a publisher with the client on its own, which
// forgets a message as soon as it is sent: both publish the same messages on
// one channel, from one goroutine, with the same number unconfirmed.
func BenchmarkPublish(b *testing.B) {
	for _, kind := range []rabbitmq.QueueType{rabbitmq.Quorum, rabbitmq.Classic} {
		for _, window := range []int{100, 1000} {
			for _, size := range []int{100, 1000} {
				name := fmt.Sprintf("%s/window=%d/bytes=%d", kind, window, size)
				b.Run(name+"/client", func(b *testing.B) { benchmarkClient(b, kind, window, size) })
				b.Run(name+"/publisher", func(b *testing.B) { benchmarkPublisher(b, kind, window, size) })
			}
		}
	}
}

func benchmarkClient(b *testing.B, kind rabbitmq.QueueType, window, size int) {
	node := broker(b)
	queue := newQueue(b, node, rabbitmq.Queue{Type: kind})
	ch, err := node.Dial(b).Channel()
	require.NoError(b, err)
	require.NoError(b, ch.Confirm(false))
	payload := make([]byte, size)
	unconfirmed := make([]*amqp.DeferredConfirmation, window)
	b.ReportAllocs()
	n := 0
	for ; b.Loop(); n++ {
		if oldest := unconfirmed[n%window]; oldest != nil {
			require.True(b, oldest.Wait())
		}
		e := event("7", n+1)
		e.Payload = payload
		unconfirmed[n%window], err = ch.PublishWithDeferredConfirmWithContext(b.Context(), "", queue, true, false, rabbitmq.Message(e))
		require.NoError(b, err)
	}
	for _, c := range unconfirmed[:min(n, window)] {
		require.True(b, c.Wait())
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "msg/s")
}

func benchmarkPublisher(b *testing.B, kind rabbitmq.QueueType, window, size int) {
	node := broker(b)
	queue := newQueue(b, node, rabbitmq.Queue{Type: kind})
	p := newPublisher(b, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Route: toQueue(queue), Channels: 1, Window: window})
	require.NoError(b, publishNow(b, p, event("7", 1)))
	payload := make([]byte, size)
	var confirms sync.WaitGroup
	done := func(err error) {
		if err != nil {
			b.Error(err)
		}
		confirms.Done()
	}
	b.ReportAllocs()
	n := 0
	for ; b.Loop(); n++ {
		e := event("7", n+2)
		e.Payload = payload
		confirms.Add(1)
		p.Go(context.Background(), e, done)
	}
	confirms.Wait()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "msg/s")
}
