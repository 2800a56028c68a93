package wire_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/internal/rabbittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type ask struct{ Text string }

func echo(_ context.Context, key string, in ask) (ask, error) { return ask{key + ": " + in.Text}, nil }
func refuse(_ context.Context, _ string, in ask) (ask, error) {
	return ask{}, wire.Refuse("not %s", in.Text)
}
func fail(context.Context, string, ask) (ask, error) { return ask{}, errors.New("the disk is full") }

// service echoes, refuses, and fails.
var service = wire.Service{"echo": wire.Of(echo), "refuse": wire.Of(refuse), "fail": wire.Of(fail)}

// A call means the same, however it is carried.
func TestCalls(t *testing.T) {
	server := httptest.NewServer(wire.Handler(service, "secret"))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	node := rabbittest.Start(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		wire.ServeAMQP(ctx, node.URL(), "echoes", service, discard)
	}()
	defer func() { stop(); <-served }()
	byGRPC := serveGRPC(t, "secret", waits{}).caller
	byQueue := wire.NewAMQP(node.URL(), "echoes")
	defer func() { assert.NoError(t, byQueue.Close()) }()
	var out ask
	require.Eventually(t, func() bool { return byQueue.Call(t.Context(), "echo", "1", ask{}, &out) == nil }, waitAtMost, tick, "the queue is declared by the service")

	for name, c := range map[string]wire.Caller{
		"local": wire.Local(service), "HTTP": wire.HTTP(http.DefaultClient, server.URL, "secret"), "RabbitMQ": byQueue, "gRPC": byGRPC,
	} {
		t.Run(name, func(t *testing.T) {
			var out ask
			require.NoError(t, c.Call(t.Context(), "echo", "7ä/a/do", ask{"hello"}, &out))
			assert.Equal(t, "7ä/a/do: hello", out.Text)
			var refusal *wire.Refusal
			require.ErrorAs(t, c.Call(t.Context(), "refuse", "1", ask{"today"}, &out), &refusal)
			assert.Equal(t, "not today", refusal.Reason)
			require.ErrorAs(t, c.Call(t.Context(), "echo", "1", "no object", &out), &refusal)
			assert.Contains(t, refusal.Reason, "the request is not valid")
			err := c.Call(t.Context(), "fail", "1", ask{}, &out)
			require.ErrorContains(t, err, "the disk is full")
			assert.False(t, errors.As(err, &refusal), "nobody knows whether it was done")
			require.ErrorContains(t, c.Call(t.Context(), "sing", "1", ask{}, &out), "no such method")
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_ = c.Call(ended, "echo", "1", ask{}, &out) // it must return
		})
	}
}

func TestAQueueThatNobodyHas(t *testing.T) {
	node := rabbittest.Start(t)
	c := wire.NewAMQP(node.URL(), "nobody")
	var out ask
	require.ErrorContains(t, c.Call(t.Context(), "echo", "1", ask{}, &out), "does not exist")
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	require.NoError(t, node.Stop())
	require.Error(t, c.Call(t.Context(), "echo", "1", ask{}, &out))
}

func TestHTTPRefusesStrangers(t *testing.T) {
	server := httptest.NewServer(wire.Handler(service, "secret"))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	post := func(header ...string) int {
		r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/echo", strings.NewReader(`{}`))
		require.NoError(t, err)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	assert.Equal(t, 401, post())
	assert.Equal(t, 401, post("Authorization", "Bearer wrong", "Idempotency-Key", "1"))
	assert.Equal(t, 401, post("Authorization", "secret", "Idempotency-Key", "1"), "no bearer token")
	assert.Equal(t, 400, post("Authorization", "Bearer secret"))
	assert.Equal(t, 200, post("Authorization", "Bearer secret", "Idempotency-Key", "1"))
	var out ask
	require.ErrorContains(t, wire.HTTP(http.DefaultClient, server.URL, "").Call(t.Context(), "echo", "1", ask{}, &out), "401")
}
