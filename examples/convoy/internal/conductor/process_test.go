package conductor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that ends though nobody has asked it to is a fault; one that was stopped is none.
func TestFault(t *testing.T) {
	c := &child{name: "worker-1", done: make(chan struct{})}
	require.NoError(t, c.fault())
	close(c.done)
	require.ErrorContains(t, c.fault(), "worker-1 has ended by itself")
	c.left = stopped
	require.NoError(t, c.fault())
}
