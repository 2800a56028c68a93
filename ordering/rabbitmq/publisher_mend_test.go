package rabbitmq_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// TestWhatIsDeletedIsDeclaredAgain: a publisher declares what of its topology was
// deleted under it, on the connection that it has. What the topology does not
// have is told.
func TestWhatIsDeletedIsDeclaredAgain(t *testing.T) {
	node := broker(t)
	queue, exchange := rabbittest.Name(t), rabbittest.Name(t)
	stranger := newQueue(t, node, rabbitmq.Queue{})
	ch, err := node.Dial(t).Channel()
	require.NoError(t, err)
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Channels: 1,
		Endpoint: rabbitmq.Endpoint{URL: node.URL(), Topology: rabbitmq.Topology{
			Exchanges: []rabbitmq.Exchange{{Name: exchange}},
			Queues:    []rabbitmq.Queue{{Name: queue, Type: rabbitmq.Classic}},
			Bindings:  []rabbitmq.Binding{{Queue: queue, Exchange: exchange, Key: "k"}},
		}},
		Route: func(e *ordering.Event) (string, string, error) {
			to := strings.SplitN(e.Type, ":", 2)
			return to[0], to[1], nil
		},
	})
	number := 0
	publish := func(exchange, key string) error {
		number++
		e := event("7", number)
		e.Type = exchange + ":" + key
		return publishNow(t, p, e)
	}
	require.NoError(t, publish("", queue))
	for name, remove := range map[string]func() error{
		"queue":    func() error { _, err := ch.QueueDelete(queue, false, false, false); return err },
		"exchange": func() error { return ch.ExchangeDelete(exchange, false, false) },
		"binding":  func() error { return ch.QueueUnbind(queue, "k", exchange, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, remove())
			require.NoError(t, publish(exchange, "k"))
			require.NoError(t, remove())
			if name == "queue" {
				require.NoError(t, publish("", queue))
			}
			require.NoError(t, publish(exchange, "k"))
		})
	}
	require.ErrorIs(t, publish(exchange, "another key"), rabbitmq.ErrUnroutable)
	_, err = ch.QueueDelete(stranger, false, false, false)
	require.NoError(t, err)
	require.ErrorIs(t, publish("", stranger), rabbitmq.ErrUnroutable)
	requireServer(t, publish("no such exchange", "k"), amqp.NotFound)
	require.NoError(t, publish(exchange, "k"))
	assert.EqualValues(t, 1, p.Stats().Connections)
}

// TestAQueueThatTakesMessagesAgain: a channel that was told that a queue takes
// nothing may go on saying so when that is over. A new one does not.
func TestAQueueThatTakesMessagesAgain(t *testing.T) {
	onEach(t, func(t *testing.T, kind rabbitmq.QueueType) {
		node := broker(t)
		queue := newQueue(t, node, rabbitmq.Queue{Type: kind})
		other := newQueue(t, node, rabbitmq.Queue{Type: kind})
		p := newPublisher(t, rabbitmq.PublisherConfig{
			Channels: 1, Endpoint: rabbitmq.Endpoint{URL: node.URL()},
			Route: func(e *ordering.Event) (string, string, error) { return "", e.Type, nil },
		})
		n := 0
		publish := func(to string) error {
			n++
			e := event("7", n)
			e.Type = to
			return publishNow(t, p, e)
		}
		_, err := node.Ctl("set_policy", "full", "^"+queue+"$", `{"max-length":1,"overflow":"reject-publish"}`)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return publish(queue) != nil }, waitAtMost, tick)
		for range 5 {
			if err := publish(queue); err != nil {
				require.ErrorIs(t, err, rabbitmq.ErrNacked)
			}
			require.NoError(t, publish(other), "others are taken")
		}
		_, err = node.Ctl("clear_policy", "full")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return publish(queue) == nil }, waitAtMost, tick)
		require.NoError(t, publish(queue))
		require.NoError(t, publish(other))
		assert.Zero(t, p.Stats().Resent, "nothing is sent twice for that")
		assert.EqualValues(t, 1, p.Stats().Connections)
	})
}

// TestABodyThatIsTooLarge: the broker has a limit of its own.
func TestABodyThatIsTooLarge(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	_, err := node.Ctl("eval", "application:set_env(rabbit, max_message_size, 1000).")
	require.NoError(t, err)
	defer func() {
		_, err := node.Ctl("eval", "application:set_env(rabbit, max_message_size, 134217728).")
		require.NoError(t, err)
	}()
	p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Route: toQueue(queue)})
	large := event("7", 1)
	large.Payload = make([]byte, 1001)
	err = publishNow(t, p, large)
	requireServer(t, err, amqp.PreconditionFailed)
	assert.True(t, dispatcher.IsPermanent(err))
	require.NoError(t, publishNow(t, p, event("7", 2)))
}

// TestTheCauseIsTold: who cannot publish or consume learns why.
func TestTheCauseIsTold(t *testing.T) {
	node := broker(t)
	wrong := func(change func(u *url.URL)) string {
		u, err := url.Parse(node.URL())
		require.NoError(t, err)
		change(u)
		return u.String()
	}
	few := rabbitmq.Dial(node.URL(), amqp.Config{ChannelMax: 1})
	for name, test := range map[string]struct {
		endpoint rabbitmq.Endpoint
		code     int
	}{
		"password": {rabbitmq.Endpoint{URL: wrong(func(u *url.URL) { u.User = url.UserPassword("guest", "secret") })}, amqp.AccessRefused},
		"vhost":    {rabbitmq.Endpoint{URL: wrong(func(u *url.URL) { u.Path = "/nowhere" })}, amqp.NotAllowed},
		"channels": {rabbitmq.Endpoint{Dial: few}, amqp.ChannelError},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: test.endpoint, Route: toQueue("q"), Channels: 4})
			told := func(err error) bool {
				var e *amqp.Error
				return errors.As(err, &e) && e.Code == test.code
			}
			require.Eventually(t, func() bool { return told(p.Ready()) }, waitAtMost, tick)
			require.Eventually(t, func() bool {
				for _, account := range []string{"1", "2", "3", "4", "5", "6"} { // on some channel
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
					err := p.Publish(ctx, event(account, 1))
					cancel()
					if told(err) {
						require.ErrorIs(t, err, rabbitmq.ErrNotSent)
						require.NotContains(t, err.Error(), "secret")
						return true
					}
				}
				return false
			}, waitAtMost, tick)
			if name == "channels" {
				return // a consumer needs one
			}
			d := &desk{T: t, node: node, queue: "q"}
			s := d.consume(rabbitmq.ConsumerConfig{Endpoint: test.endpoint, Receiver: receiver(nil)})
			require.Eventually(t, func() bool { return told(s.consumer.Ready()) }, waitAtMost, tick)
			s.end(t)
		})
	}
}

// TestSeveralAddresses: of several nodes the first that answers is used, and one
// that hangs, refuses or does not exist holds nobody up.
func TestSeveralAddresses(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	require.NoError(t, err)
	defer silent.Close()
	hung, nobody := "amqp://"+silent.Addr().String(), "amqp://127.0.0.1:1"
	one, two := node.Link(t), node.Link(t)
	for name, endpoint := range map[string]rabbitmq.Endpoint{
		"first":     {URL: one.URL(), URLs: []string{hung, two.URL()}},
		"hung":      {URL: hung, URLs: []string{one.URL(), two.URL()}},
		"nobody":    {URL: nobody, URLs: []string{hung, one.URL(), two.URL()}},
		"URLs only": {URLs: []string{nobody, one.URL(), hung, two.URL()}},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint.AnswerTimeout = time.Hour
			p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: endpoint, Route: toQueue(queue)})
			require.NoError(t, publishNow(t, p, event("7", 1)))
			one.Cut()
			require.NoError(t, publishNow(t, p, event("7", 2)))
			two.Cut()
			one.Mend()
			require.NoError(t, publishNow(t, p, event("7", 3)))
			two.Mend()
		})
	}
	_, err = rabbitmq.NewPublisher(rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: hung, URLs: []string{"http://x"}}, Route: toQueue(queue)})
	require.ErrorIs(t, err, rabbitmq.ErrConfig)
}
