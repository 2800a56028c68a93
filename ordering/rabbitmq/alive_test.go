package rabbitmq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// The context of a connection ends with it, and there is another one for the
// next.
func TestAlive(t *testing.T) {
	node := broker(t)
	link := node.Link(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: link.URL()}, Route: toQueue(queue)})
	require.NoError(t, publishNow(t, p, event("7", 1)))
	first := p.Alive()
	require.NoError(t, first.Err())
	link.Cut()
	<-first.Done()
	link.Mend()
	require.NoError(t, publishNow(t, p, event("7", 2)))
	require.NoError(t, p.Alive().Err())
	require.True(t, first != p.Alive(), "another one")
	require.NoError(t, p.Shutdown(t.Context()))
	require.Error(t, p.Alive().Err())
}
