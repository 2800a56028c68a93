package tcplink_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/internal/tcplink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo starts a server that returns what it gets, and returns a link to it.
func echo(t *testing.T) *tcplink.Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	forward := func(to, from *net.TCPConn) {
		_, _ = io.Copy(to, from)
		_ = to.CloseWrite()
	}
	l, err := tcplink.New(listener.Addr().String(),
		func(line *tcplink.Line) { forward(line.Server, line.Client) },
		func(line *tcplink.Line) { forward(line.Client, line.Server) })
	require.NoError(t, err)
	t.Cleanup(func() {
		l.Close()
		require.NoError(t, listener.Close())
		running.Wait()
	})
	return l
}

func dial(t *testing.T, l *tcplink.Link) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a text and returns what comes back.
func ask(c net.Conn, text string) (string, error) {
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	answer := make([]byte, len(text))
	n, err := io.ReadFull(c, answer)
	return string(answer[:n]), err
}

// requireReset checks that a new connection is reset, perhaps while it is made.
func requireReset(t *testing.T, l *tcplink.Link) {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr())
	if err == nil {
		defer c.Close()
		_, err = io.ReadAll(c)
	}
	require.ErrorContains(t, err, "connection reset by peer")
}

func TestALinkCarriesBothWays(t *testing.T) {
	c := dial(t, echo(t))
	for _, text := range []string{"one", "two"} {
		answer, err := ask(c, text)
		require.NoError(t, err)
		assert.Equal(t, text, answer)
	}
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	rest, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Empty(t, rest, "the end is carried too")
}

func TestALinkResetsItsConnections(t *testing.T) {
	l := echo(t)
	one, two := dial(t, l), dial(t, l)
	for _, c := range []net.Conn{one, two} {
		_, err := ask(c, "x") // it is connected
		require.NoError(t, err)
	}
	l.Reset()
	for _, c := range []net.Conn{one, two} {
		_, err := io.ReadAll(c)
		require.ErrorContains(t, err, "connection reset by peer")
	}
	_, err := ask(dial(t, l), "a new one")
	require.NoError(t, err)
}

func TestALinkThatIsCutResetsNewConnectionsToo(t *testing.T) {
	l := echo(t)
	before := dial(t, l)
	_, err := ask(before, "x")
	require.NoError(t, err)
	l.Cut()
	_, err = io.ReadAll(before)
	require.ErrorContains(t, err, "connection reset by peer")
	requireReset(t, l)
	l.Mend()
	_, err = ask(dial(t, l), "x")
	require.NoError(t, err)
}

func TestALinkToNobodyResets(t *testing.T) {
	l, err := tcplink.New("127.0.0.1:1", nil, nil)
	require.NoError(t, err)
	defer l.Close()
	requireReset(t, l)
}

// Close waits for what is carried, also while clients connect.
func TestALinkIsClosedUnderLoad(t *testing.T) {
	l := echo(t)
	var clients sync.WaitGroup
	connected := make(chan struct{}, 1)
	for range 8 {
		clients.Go(func() {
			for {
				c, err := net.Dial("tcp", l.Addr())
				if err != nil {
					return
				}
				_, err = ask(c, "x")
				_ = c.Close()
				if err == nil {
					select {
					case connected <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	<-connected
	l.Close()
	clients.Wait()
}
