package backup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"":                              0,
		"7":                             7 * time.Second,
		"-7":                            0,
		"soon":                          0,
		"86400":                         time.Hour,
		"Sat, 28 Nov 2026 00:00:09 GMT": 9 * time.Second,
		"Fri, 27 Nov 2026 00:00:00 GMT": 0,
		"Sun, 29 Nov 2026 00:00:00 GMT": time.Hour,
	} {
		assert.Equal(t, want, retryAfter(header, now), header)
	}
}

// applies is a sink that has applied what it is offered.
type applies struct{}

func (applies) Offer(_ context.Context, e *ordering.Event, done ordering.Done) error {
	done(e, ordering.Outcome{Result: ordering.Applied})
	return nil
}

// network carries connections to a server. It can go silent for those that there
// are, as if the server's machine were gone and another had its address.
type network struct {
	net.Listener
	to     string
	silent atomic.Pointer[atomic.Bool] // of the connections made from now on
	all    sync.WaitGroup
}

func newNetwork(t *testing.T, to string) *network {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &network{Listener: listener, to: to}
	n.silence()
	n.all.Go(func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			n.carry(conn)
		}
	})
	return n
}

// close ends the network, once its connections have ended.
func (n *network) close() {
	n.Close()
	n.all.Wait()
}

// silence makes the connections that there are silent.
func (n *network) silence() {
	if before := n.silent.Swap(new(atomic.Bool)); before != nil {
		before.Store(true)
	}
}

func (n *network) carry(near net.Conn) {
	far, err := net.Dial("tcp", n.to)
	if err != nil {
		near.Close()
		return
	}
	silent := n.silent.Load()
	pipe := func(to, from net.Conn) {
		defer to.Close()
		_, _ = io.Copy(unless{silent, to}, from)
	}
	n.all.Go(func() { pipe(near, far) })
	n.all.Go(func() { pipe(far, near) })
}

// unless swallows what is written once it is silent.
type unless struct {
	silent *atomic.Bool
	io.Writer
}

func (u unless) Write(p []byte) (int, error) {
	if u.silent.Load() {
		return len(p), nil
	}
	return u.Writer.Write(p)
}

// A receiver whose machine is gone says nothing: the connections to it neither
// end nor answer. It costs the requests that are on their way then, and no
// others, though many connections were kept.
func TestDeadConnections(t *testing.T) {
	h, err := NewHandler(HandlerConfig{Sink: applies{}, Public: true})
	require.NoError(t, err)
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprint("HTTP2=", http2), func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(h)
			server.EnableHTTP2 = http2
			server.StartTLS()
			defer server.Close()
			n := newNetwork(t, server.Listener.Addr().String())
			defer n.close()
			c, err := NewClient(ClientConfig{URL: "https://" + n.Addr().String(), Timeout: 3 * time.Second})
			require.NoError(t, err)
			defer c.Close()
			roots := x509.NewCertPool()
			roots.AddCert(server.Certificate())
			c.own.TLSClientConfig = &tls.Config{RootCAs: roots}
			publish := func() error { return c.Publish(t.Context(), &ordering.Event{Positions: one}) }
			publishAll := func() (failed int64) {
				var all sync.WaitGroup
				var count atomic.Int64
				for range 8 {
					all.Go(func() {
						if publish() != nil {
							count.Add(1)
						}
					})
				}
				all.Wait()
				return count.Load()
			}
			require.Zero(t, publishAll(), "as many connections are kept")
			n.silence()
			require.Error(t, publish())
			assert.NoError(t, publish())
			require.Zero(t, publishAll())
			n.silence()
			publishAll()
			assert.Zero(t, publishAll())
		})
	}
}

// A program that has put a transport of its own in place of the default one can
// have a client.
func TestAnotherDefaultTransport(t *testing.T) {
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	http.DefaultTransport = struct{ http.RoundTripper }{before}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	c, err := NewClient(ClientConfig{URL: server.URL})
	require.NoError(t, err)
	defer c.Close()
	require.ErrorIs(t, c.Publish(t.Context(), &ordering.Event{Positions: one}), ErrResponse)
}
