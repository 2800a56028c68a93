package wire

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/rabbittest"
)

// A channel that the broker has closed, for a reason of its own, while the connection lasts,
// is not used for ever: the next calls have another one.
func TestAChannelIsClosed(t *testing.T) {
	node := rabbittest.Start(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		ServeAMQP(ctx, node.URL(), "closed", Service{"yes": Of(func(context.Context, string, struct{}) (bool, error) { return true, nil })}, slog.New(slog.DiscardHandler))
	}()
	defer func() { stop(); <-served }()
	c := NewAMQP(node.URL(), "closed")
	defer func() { assert.NoError(t, c.Close()) }()
	called := func() bool {
		var out bool
		return c.Call(t.Context(), "yes", "1", struct{}{}, &out) == nil && out
	}
	require.Eventually(t, called, time.Minute, time.Millisecond)
	_, err := c.link.ch.QueueDeclarePassive("there is no such queue", false, false, false, false, nil)
	require.Error(t, err)
	require.Eventually(t, called, 20*time.Second, time.Millisecond)
}
