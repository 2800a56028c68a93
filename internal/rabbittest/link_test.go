package rabbittest_test

import (
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

func TestALinkThatIsCutResetsConnectionsUntilItIsMended(t *testing.T) {
	n := shared(t)
	link := n.Link(t)
	c, ch := open(t, link.URL())
	lost := c.NotifyClose(make(chan *amqp.Error, 1))
	queue := declare(t, ch)
	requireKept(t, publish(t, ch, queue, "before"))

	link.Cut()
	require.ErrorContains(t, receive(t, lost), "connection reset by peer")
	_, err := amqp.Dial(link.URL())
	require.Error(t, err)
	direct, err := n.Dial(t).Channel()
	require.NoError(t, err)
	requireNext(t, direct, queue, "before")

	link.Mend()
	_, ch = open(t, link.URL())
	requireKept(t, publish(t, ch, queue, "after"))
	requireNext(t, direct, queue, "after")
}

func TestALinkThatStallsIsFoundByHeartbeats(t *testing.T) {
	n := shared(t)
	link := n.Link(t)
	c, err := amqp.DialConfig(link.URL(), amqp.Config{Heartbeat: time.Second})
	require.NoError(t, err)
	lost := c.NotifyClose(make(chan *amqp.Error, 1))
	ch, err := c.Channel()
	require.NoError(t, err)
	require.NoError(t, ch.Confirm(false))
	queue := declare(t, ch)

	link.Stall()
	confirm := publish(t, ch, queue, "swallowed")
	require.ErrorContains(t, receive(t, lost), "i/o timeout")
	require.False(t, confirm.Acked())
	_, err = amqp.DialConfig(link.URL(), amqp.Config{Dial: amqp.DefaultDial(100 * time.Millisecond)})
	require.ErrorContains(t, err, "i/o timeout")

	link.Mend()
	_, ch = open(t, link.URL())
	_, ok, err := ch.Get(queue, true)
	require.NoError(t, err)
	require.False(t, ok, "what was swallowed came through")
}

func TestALinkThatWasStalledResetsTheConnectionsOfThatTime(t *testing.T) {
	link := shared(t).Link(t)
	c, ch := open(t, link.URL())
	lost := c.NotifyClose(make(chan *amqp.Error, 1))
	queue := declare(t, ch)

	link.Stall()
	publish(t, ch, queue, "swallowed")
	link.Mend()
	require.ErrorContains(t, receive(t, lost), "connection reset by peer")
}

func TestALinkIsCutUnderLoad(t *testing.T) {
	link := shared(t).Link(t)
	_, ch := open(t, link.URL())
	queue := declare(t, ch)
	for range 3 {
		var publishers sync.WaitGroup
		sent := make(chan struct{}, 1)
		for range 4 {
			_, ch := open(t, link.URL())
			publishers.Go(func() {
				for ch.PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{Body: make([]byte, 10_000)}) == nil {
					select {
					case sent <- struct{}{}:
					default:
					}
				}
			})
		}
		for range 100 {
			receive(t, sent)
		}
		link.Cut()
		publishers.Wait()
		link.Mend()
	}
}

func TestALinkThatIsClosed(t *testing.T) {
	link := shared(t).Link(t)
	open(t, link.URL())
	link.Close()
	_, err := amqp.Dial(link.URL())
	require.ErrorContains(t, err, "connection refused")
}
