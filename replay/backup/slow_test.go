package backup_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/backup"
)

// A sender that dawdles with its body is told so, and given up.
func TestSlowBody(t *testing.T) {
	h := handler(t, backup.HandlerConfig{Public: true, Sink: applies, ReadTimeout: 10 * time.Millisecond})
	server := serve(t, h)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"version\"")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusRequestTimeout, response.StatusCode)
	soon(t, func() bool { return h.Stats().Reading == 0 }, "its memory is free")
}

// The time for the body does not count while the events run.
func TestSlowEvents(t *testing.T) {
	ended := make(chan error, 1)
	server := serve(t, handler(t, backup.HandlerConfig{ReadTimeout: 50 * time.Millisecond, Sink: sinkFunc(
		func(ctx context.Context, e *ordering.Event, done ordering.Done) error {
			time.AfterFunc(150*time.Millisecond, func() {
				ended <- ctx.Err()
				done(e, ordering.Outcome{Result: ordering.Applied})
			})
			return nil
		})}))
	require.NoError(t, client(t, server, backup.ClientConfig{}).Publish(t.Context(), event(1)))
	require.NoError(t, <-ended)
}
