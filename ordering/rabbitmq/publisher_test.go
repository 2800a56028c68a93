package rabbitmq_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
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

// TestPublish: what is confirmed is in the queue, whole.
func TestPublish(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Route: toQueue(queue)})
	e := event("7", 1)
	e.ID, e.CorrelationID, e.CausationID = "e1", "c1", strings.Repeat("ca", 300)
	e.Time = time.Date(2026, 11, 28, 9, 30, 15, 123456789, time.FixedZone("", 3600))
	e.Headers = map[string]string{"tenant": "north"}
	require.NoError(t, publishNow(t, p, e))

	got := contents(t, node, queue)
	require.Len(t, got, 1)
	assert.True(t, e.Time.Equal(got[0].Time))
	assert.Equal(t, ordering.FirstDelivery, got[0].Delivery)
	got[0].Time, got[0].Delivery = e.Time, e.Delivery
	assert.Equal(t, e, got[0])
	assert.NoError(t, p.Ready())
	assert.Equal(t, rabbitmq.PublisherStats{Connected: true, Connections: 1, Confirmed: 1}, p.Stats())
}

// TestPublishWindows: many on their way from many goroutines at once, all
// confirmed, in order for each key.
func TestPublishWindows(t *testing.T) {
	for _, kind := range []rabbitmq.QueueType{rabbitmq.Quorum, rabbitmq.Classic} {
		t.Run(string(kind), func(t *testing.T) {
			node := broker(t)
			queue := newQueue(t, node, rabbitmq.Queue{Type: kind})
			p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Route: toQueue(queue), Window: 50})
			const accounts, each = 16, 200
			publishAll(t, p, accounts, each)
			events := contents(t, node, queue)
			assert.Len(t, events, accounts*each)
			requireOrder(t, events, accounts, each)
			assert.Zero(t, p.Stats().Pending)
		})
	}
}

// publishAll publishes events of each account from a goroutine of its own, and
// requires that all are confirmed.
func publishAll(t testing.TB, p *rabbitmq.Publisher, accounts, each int) {
	t.Helper()
	var publishers, confirms sync.WaitGroup
	for a := range accounts {
		publishers.Go(func() {
			for n := range each {
				confirms.Add(1)
				p.Go(context.Background(), event(fmt.Sprint(a), n+1), func(err error) {
					defer confirms.Done()
					assert.NoError(t, err)
				})
			}
		})
	}
	publishers.Wait()
	confirms.Wait()
}

// TestPublishSync: many goroutines that each wait for every confirmation.
func TestPublishSync(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Route: toQueue(queue), Window: 8})
	var publishers sync.WaitGroup
	const accounts, each = 64, 20
	for a := range accounts {
		publishers.Go(func() {
			for n := range each {
				assert.NoError(t, publishNow(t, p, event(fmt.Sprint(a), n+1)))
			}
		})
	}
	publishers.Wait()
	events := contents(t, node, queue)
	assert.Len(t, events, accounts*each)
	requireOrder(t, events, accounts, each)
}

// TestACallbackThatMisbehaves: that it panics or ends its goroutine is logged, and
// the others are called all the same.
func TestACallbackThatMisbehaves(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Route: toQueue(queue), Channels: 1})
	p.Go(t.Context(), nil, func(error) { panic("a bug") })
	p.Go(t.Context(), event("7", 1), func(error) { panic("a bug") })
	p.Go(t.Context(), event("7", 2), func(error) { runtime.Goexit() })
	require.NoError(t, publishNow(t, p, event("7", 3)))
	require.EqualValues(t, 3, p.Stats().Confirmed)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	p.Go(gone, event("7", 4), func(error) { panic("a bug") })
	require.NoError(t, publishNow(t, p, event("7", 5)))
	require.NoError(t, p.Drain(t.Context()))
}

// TestUnroutable: messages that no queue gets come back, each as an error that
// says where it was to go; those around them are confirmed.
func TestUnroutable(t *testing.T) {
	node := broker(t)
	exchange := rabbittest.Name(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: node.URL(), Topology: rabbitmq.Topology{
			Exchanges: []rabbitmq.Exchange{{Name: exchange}},
			Bindings:  []rabbitmq.Binding{{Queue: queue, Exchange: exchange, Key: "even"}},
		}},
		Route: func(e *ordering.Event) (string, string, error) {
			return exchange, []string{"even", "odd"}[e.Positions[0].Number%2], nil
		},
	})
	const each = 300
	results := make([]error, each)
	var confirms sync.WaitGroup
	for i := range results {
		confirms.Add(1)
		p.Go(t.Context(), event("7", i+1), func(err error) {
			results[i] = err
			confirms.Done()
		})
	}
	confirms.Wait()
	for i, err := range results {
		if i%2 == 1 {
			assert.NoError(t, err, "number %d", i+1)
			continue
		}
		var e *rabbitmq.PublishError
		require.ErrorAs(t, err, &e, "number %d", i+1)
		assert.Equal(t, []string{fmt.Sprintf("account/7=%d", i+1), exchange, "odd"}, []string{e.MessageID, e.Exchange, e.Key})
		require.ErrorIs(t, err, rabbitmq.ErrUnroutable)
		assert.False(t, dispatcher.IsPermanent(err), "a queue may be bound later")
	}
	assert.Len(t, contents(t, node, queue), each/2)
}

// TestNacked: a full queue that refuses messages.
func TestNacked(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{Type: rabbitmq.Classic, Args: amqp.Table{"x-max-length": int32(3), "x-overflow": "reject-publish"}})
	p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Route: toQueue(queue)})
	failed := 0
	for i := range 6 {
		if err := publishNow(t, p, event("7", i+1)); err != nil {
			require.ErrorIs(t, err, rabbitmq.ErrNacked)
			assert.ErrorContains(t, err, queue)
			failed++
		}
	}
	assert.Equal(t, 3, failed)
}

// TestRefused: the broker closes the channel because of a message. That one
// fails, and no other, although the broker does not say which one it was.
func TestRefused(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Channels: 1,
		Route: func(e *ordering.Event) (string, string, error) {
			if e.Positions[0].Number%20 == 0 {
				return "no such exchange", queue, nil
			}
			return "", queue, nil
		},
	})
	const each = 100
	results := make([]error, each)
	var confirms sync.WaitGroup
	for i := range results {
		confirms.Add(1)
		p.Go(t.Context(), event("7", i+1), func(err error) {
			results[i] = err
			confirms.Done()
		})
	}
	confirms.Wait()
	var want []int
	for i, err := range results {
		if (i+1)%20 != 0 {
			require.NoError(t, err, "number %d", i+1)
			want = append(want, i+1)
			continue
		}
		requireServer(t, err, amqp.NotFound)
		assert.ErrorContains(t, err, "no such exchange")
		assert.False(t, dispatcher.IsPermanent(err), "the exchange may be there later")
	}
	assert.Equal(t, want, firstSeen(contents(t, node, queue))[lockkeys.Must("account", "7")])
	assert.EqualValues(t, 1, p.Stats().Connections, "the connection stays")
}

// TestRefusedForGood: the broker will never take this one, since a header has a
// meaning to it.
func TestRefusedForGood(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Route: toQueue(queue)})
	e := event("7", 1)
	e.Headers = map[string]string{"CC": "not a list"}
	err := publishNow(t, p, e)
	requireServer(t, err, amqp.PreconditionFailed)
	assert.True(t, dispatcher.IsPermanent(err))
	require.NoError(t, publishNow(t, p, event("7", 2)))
}

// TestImpossible: what cannot be a message is refused at once, for good, with
// or without a broker.
func TestImpossible(t *testing.T) {
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: "amqp://127.0.0.1:1/"},
		Route: func(e *ordering.Event) (string, string, error) {
			if e.Type == "lost" {
				return "", "", assert.AnError
			}
			return "", e.Type, nil
		},
	})
	for name, test := range map[string]struct {
		change func(e *ordering.Event)
		part   string
	}{
		"no position":     {func(e *ordering.Event) { e.Positions = nil }, "no position"},
		"a NUL byte":      {func(e *ordering.Event) { e.CorrelationID = "a\x00b" }, "NUL"},
		"long key":        {func(e *ordering.Event) { e.Type = strings.Repeat("k", 256) }, "routing key: 256 bytes"},
		"long header":     {func(e *ordering.Event) { e.Headers = map[string]string{strings.Repeat("h", 256): ""} }, "header \"hhh"},
		"reserved header": {func(e *ordering.Event) { e.Headers = map[string]string{ordering.SequenceIDHeader: "1"} }, ordering.SequenceIDHeader},
	} {
		t.Run(name, func(t *testing.T) {
			e := event("7", 1)
			test.change(e)
			err := publishNow(t, p, e)
			require.ErrorContains(t, err, test.part)
			assert.True(t, dispatcher.IsPermanent(err))
		})
	}
	t.Run("nil", func(t *testing.T) {
		err := publishNow(t, p, nil)
		require.ErrorContains(t, err, "it is nil")
		assert.True(t, dispatcher.IsPermanent(err))
	})
	t.Run("route", func(t *testing.T) {
		e := event("7", 1)
		e.Type = "lost"
		err := publishNow(t, p, e)
		require.ErrorIs(t, err, assert.AnError)
		assert.False(t, dispatcher.IsPermanent(err))
	})
}

// TestLargeHeaders: headers have one frame, whose size broker and client agree
// upon. What is larger would cost the connection, again and again.
func TestLargeHeaders(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{Dial: rabbitmq.Dial(node.URL(), amqp.Config{FrameSize: 8192})}, Route: toQueue(queue)})
	sizes := []int{7500, 8192, 7500, 1 << 20, 1}
	for i, size := range sizes {
		e := event("7", i+1)
		e.Headers = map[string]string{"note": strings.Repeat("x", size)}
		err := publishNow(t, p, e)
		if size < 8000 {
			require.NoError(t, err)
			continue
		}
		var bad *rabbitmq.MessageError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, "headers", bad.Part)
		assert.True(t, dispatcher.IsPermanent(err))
	}
	assert.Len(t, contents(t, node, queue), 3)
	assert.EqualValues(t, 1, p.Stats().Connections)
}

// TestEventsThatLookAlike: two events have one ID and one payload, and the exchange tells
// them apart by a header. The broker says of a message that no queue gets what it says, but
// not which one it is: neither counts as confirmed then.
func TestEventsThatLookAlike(t *testing.T) {
	node := broker(t)
	exchange, queue := rabbittest.Name(t), newQueue(t, node, rabbitmq.Queue{})
	ch, err := node.Dial(t).Channel()
	require.NoError(t, err)
	require.NoError(t, rabbitmq.Topology{
		Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "headers"}},
		Bindings:  []rabbitmq.Binding{{Queue: queue, Exchange: exchange, Args: amqp.Table{"to": "bound"}}},
	}.Declare(ch))
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Channels: 1,
		Route: func(*ordering.Event) (string, string, error) { return exchange, "", nil },
	})
	publish := func(e *ordering.Event, to string) <-chan error {
		e.ID, e.Payload, e.Headers = "deposit", []byte("10"), map[string]string{"to": to}
		result := make(chan error, 1)
		p.Go(t.Context(), e, func(err error) { result <- err })
		return result
	}
	for n := range 20 {
		bound, lost := publish(event("7", 2*n+1), "bound"), publish(event("7", 2*n+2), "nowhere")
		require.ErrorIs(t, <-lost, rabbitmq.ErrUnroutable)
		if err := <-bound; err != nil {
			require.ErrorIs(t, err, rabbitmq.ErrUnroutable)
		}
	}
	require.NoError(t, <-publish(event("7", 41), "bound"))
	require.Len(t, contents(t, node, queue), 21)
}
