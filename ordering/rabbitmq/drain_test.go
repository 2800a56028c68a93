package rabbitmq_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// TestPublisherDrain: it waits for the callbacks of all that was accepted, and for
// nothing that was refused; and it can be called again and again.
func TestPublisherDrain(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Route: toQueue(queue), Channels: 2, Window: 16})
	require.NoError(t, p.Drain(t.Context()))
	const events = 200
	var told atomic.Int64
	for round := range 3 {
		for n := range events {
			p.Go(t.Context(), event("7", round*events+n+1), func(err error) {
				assert.NoError(t, err)
				told.Add(1)
			})
		}
		p.Go(t.Context(), nil, func(err error) { assert.Error(t, err) })
		require.NoError(t, p.Drain(t.Context()))
		require.EqualValues(t, (round+1)*events, told.Load())
		require.Zero(t, p.Stats().Pending)
	}
}

// TestPublisherDrainWithoutABroker: it ends with its context, and the event stays.
func TestPublisherDrainWithoutABroker(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	link := node.Link(t)
	link.Cut()
	p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: link.URL()}, Route: toQueue(queue)})
	var told atomic.Int64
	p.Go(t.Context(), event("7", 1), func(err error) {
		assert.NoError(t, err)
		told.Add(1)
	})
	late := errors.New("late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	require.ErrorIs(t, p.Drain(ctx), late)
	require.Zero(t, told.Load())
	link.Mend()
	require.NoError(t, p.Drain(t.Context()))
	require.EqualValues(t, 1, told.Load())
}
