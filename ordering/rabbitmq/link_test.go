package rabbitmq_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// TestDial: connecting ends with its context, whatever the broker does.
func TestDial(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	require.NoError(t, err)
	defer silent.Close()
	dial := rabbitmq.Dial("amqp://"+silent.Addr().String(), amqp.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = dial(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	dial = rabbitmq.Dial("amqp://127.0.0.1:1", amqp.Config{})
	_, err = dial(t.Context())
	require.ErrorContains(t, err, "connection refused")

	properties := amqp.Table{"connection_name": "test"}
	conn, err := rabbitmq.Dial(broker(t).URL(), amqp.Config{Properties: properties})(t.Context())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	assert.Len(t, properties, 1, "the caller's own are left alone")
}

// TestRace: a broker that hangs keeps nobody from finding another one that comes
// back meanwhile.
func TestRace(t *testing.T) {
	gone := errors.New("gone")
	hangs := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	fails := func(times int) func(context.Context) error {
		return func(context.Context) error {
			if times--; times >= 0 {
				return gone
			}
			return nil
		}
	}
	type dials []func(ctx context.Context) error
	for name, test := range map[string]struct {
		dials dials
		first int // to answer; -1 for none
		after time.Duration
	}{
		"the first answers":        {dials{fails(0), fails(0)}, 0, 0},
		"one fails":                {dials{fails(9), fails(0)}, 1, 0},
		"one hangs":                {dials{hangs, fails(0)}, 1, time.Second},
		"one comes back":           {dials{hangs, fails(3)}, 1, 4 * time.Second},
		"one of two comes back":    {dials{fails(99), hangs, fails(2), hangs}, 2, 3 * time.Second},
		"all fail":                 {dials{fails(1), fails(1)}, -1, 0},
		"none before ctx's end":    {dials{hangs, hangs}, -1, time.Hour},
		"nobody comes back":        {dials{hangs, fails(9999)}, -1, time.Hour},
		"one comes back very late": {dials{fails(1000), hangs, hangs}, 0, 1001 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				conn, first, err := rabbitmq.Race(ctx, len(test.dials), func(ctx context.Context, i int) (*amqp.Connection, error) {
					if err := test.dials[i](ctx); err != nil {
						return nil, err
					}
					return &amqp.Connection{}, nil
				})
				assert.Equal(t, test.after, time.Since(began))
				if test.first < 0 {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				assert.NotNil(t, conn)
				assert.Equal(t, test.first, first)
			})
		})
	}
}

// TestDialTLS: a broker behind TLS, whose name the certificate has.
func TestDialTLS(t *testing.T) {
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer certified.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", certified.TLS)
	require.NoError(t, err)
	defer listener.Close()
	node := broker(t)
	target, err := amqp.ParseURI(node.URL())
	require.NoError(t, err)
	var proxy sync.WaitGroup
	t.Cleanup(proxy.Wait)
	proxy.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", net.JoinHostPort(target.Host, strconv.Itoa(target.Port)))
			if !assert.NoError(t, err) {
				return
			}
			proxy.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
			proxy.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
		}
	})
	url := "amqps://guest:guest@" + listener.Addr().String()
	_, err = rabbitmq.Dial(url, amqp.Config{})(t.Context())
	require.ErrorContains(t, err, "certificate")

	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	queue := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{Dial: rabbitmq.Dial(url, amqp.Config{TLSClientConfig: config})}, Route: toQueue(queue)})
	require.NoError(t, publishNow(t, p, event("7", 1)))
	require.NoError(t, p.Shutdown(t.Context()))
	assert.Empty(t, config.ServerName, "the caller's own is left alone")
}

// TestRecovery: connections that reconnect by themselves are not accepted.
func TestRecovery(t *testing.T) {
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{Dial: rabbitmq.Dial(broker(t).URL(), amqp.Config{Recovery: &amqp.Recovery{}})},
		Route:    toQueue("q"),
	})
	require.ErrorIs(t, publishNow(t, p, event("7", 1)), rabbitmq.ErrRecovery)
}

// TestConnectedAgain: the log says for how long there was no connection, and has
// no password.
func TestConnectedAgain(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	link := d.node.Link(t)
	var log journal
	o := newOffice(t, ordering.NewMemory(), nil, nil)
	s := d.consume(rabbitmq.ConsumerConfig{
		Endpoint: rabbitmq.Endpoint{URL: link.URL(), Backoff: dispatcher.Backoff{Initial: time.Millisecond}, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		Receiver: rabbitmq.Events(o.Sequencer),
	})
	require.Eventually(t, func() bool { return s.consumer.Ready() == nil }, waitAtMost, tick)
	assert.Empty(t, log.text())
	link.Cut()
	require.Eventually(t, func() bool { return strings.Count(log.text(), "no connection") > 1 }, waitAtMost, tick)
	assert.NotContains(t, log.text(), "connected again")
	link.Mend()
	require.Eventually(t, func() bool { return s.consumer.Ready() == nil }, waitAtMost, tick)
	s.end(t)
	assert.Regexp(t, `level=INFO msg="rabbitmq: connected again" queue=`+d.queue+` away=\d`, log.text())
	assert.Equal(t, 1, strings.Count(log.text(), "connected again"))
	assert.NotContains(t, log.text(), "guest")
}

// journal is a log to read.
type journal struct {
	mu     sync.Mutex
	buffer strings.Builder
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buffer.Write(line)
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buffer.String()
}

// TestSecrets: what is said of a URL that cannot be read does not quote it.
func TestSecrets(t *testing.T) {
	unused := rabbitmq.Owner(func(context.Context) (rabbitmq.Term, error) { return nil, errors.New("nobody consumes") })
	for _, url := range []string{"amqp://user:se#cret@host/", "amqp://user:secret@host:port/", "amqp://user:se%cret@host/", "amqp://us er:secret@host", "http://user:secret@host"} {
		_, err := rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{Endpoint: rabbitmq.Endpoint{URL: url}, Queue: "q", Receiver: unused})
		require.ErrorIs(t, err, rabbitmq.ErrConfig, url)
		for _, secret := range []string{":se", "cret"} {
			assert.NotContains(t, err.Error(), secret)
		}
		_, err = rabbitmq.Dial(url, amqp.Config{})(t.Context())
		require.Error(t, err)
		for _, secret := range []string{":se", "cret"} {
			assert.NotContains(t, err.Error(), secret)
		}
	}
}

// TestTopologyAgain: what was deleted while there was no connection is declared
// again; and what has become different meanwhile does not end the publisher.
func TestTopologyAgain(t *testing.T) {
	node := broker(t)
	link := node.Link(t)
	queue := newQueue(t, node, rabbitmq.Queue{Type: rabbitmq.Classic})
	ch, err := node.Dial(t).Channel()
	require.NoError(t, err)
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: link.URL(), Topology: rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: queue, Type: rabbitmq.Classic}}}},
		Route:    toQueue(queue),
	})
	require.NoError(t, publishNow(t, p, event("7", 1)))

	link.Cut()
	_, err = ch.QueueDelete(queue, false, false, false)
	require.NoError(t, err)
	link.Mend()
	require.NoError(t, publishNow(t, p, event("7", 2)))

	link.Cut()
	_, err = ch.QueueDelete(queue, false, false, false)
	require.NoError(t, err)
	require.NoError(t, rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: queue}}}.Declare(ch))
	link.Mend()
	hasty, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Publish(hasty, event("7", 3)), rabbitmq.ErrNotSent)
	_, err = ch.QueueDelete(queue, false, false, false)
	require.NoError(t, err)
	require.NoError(t, publishNow(t, p, event("7", 4)))
}
