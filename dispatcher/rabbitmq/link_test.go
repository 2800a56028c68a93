package rabbitmq_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher/rabbitmq"
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
	require.NoError(t, p.Close(t.Context()))
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
