package rabbit

import (
	"log/slog"
	"strconv"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/bench/internal/measure"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// broker is a broker and how many queues were made in it.
type broker struct {
	url    string
	queues int
}

// contender publishes or consumes n messages. What it does between its calls of start and
// stop is measured.
type contender struct {
	name string
	run  func(t testing.TB, br *broker, n int, start, stop func())
}

// race compares contenders, on a broker of its own.
func race(b *testing.B, br *broker, contenders []contender) {
	r := measure.Race{Rate: "msg/s"}
	for _, c := range contenders {
		r.Run(b, c.name, func(b *testing.B) { c.run(b, br, b.N, b.ResetTimer, b.StopTimer) })
	}
}

// What is measured must work; how fast it is depends on the machine.
func TestContenders(t *testing.T) {
	br := &broker{url: rabbittest.Start(t).URL()}
	for _, c := range append(append(publishing, consuming...), publishers(20)...) {
		started, stopped := false, false
		c.run(t, br, 600, func() { started = true }, func() { stopped = true })
		require.True(t, started && stopped, c.name)
	}
}

// dial opens a channel of the plain client.
func (br *broker) dial(t testing.TB) (*amqp.Connection, *amqp.Channel) {
	conn, err := amqp.Dial(br.url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	require.NoError(t, err)
	return conn, ch
}

// queue makes a quorum queue that is empty.
func (br *broker) queue(t testing.TB) (name string) {
	br.queues++
	name = "bench-" + strconv.Itoa(br.queues)
	_, ch := br.dial(t)
	require.NoError(t, rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: name}}}.Declare(ch))
	t.Cleanup(func() { _, _ = ch.QueueDelete(name, false, false, false) })
	return name
}

func (br *broker) endpoint() rabbitmq.Endpoint {
	return rabbitmq.Endpoint{URL: br.url, Logger: slog.New(slog.DiscardHandler)}
}

// publisher returns one of this library's, which is connected.
func (br *broker) publisher(t testing.TB, queue string, channels, window int) *rabbitmq.Publisher {
	p, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{Endpoint: br.endpoint(), Channels: channels, Window: window,
		Route: func(*ordering.Event) (string, string, error) { return "", queue, nil }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// events returns those numbered first to n-1, of a thousand streams in turn.
func events(first, n int) []*ordering.Event {
	const streams = 1000
	list := make([]*ordering.Event, n-first)
	for at := range list {
		i := first + at
		list[at] = &ordering.Event{
			ID:        "message-" + strconv.Itoa(i),
			Positions: []ordering.Position{{Stream: lockkeys.Must("account", strconv.Itoa(i%streams)), Number: uint64(i/streams + 1)}},
			Payload:   make([]byte, 100),
		}
	}
	return list
}
