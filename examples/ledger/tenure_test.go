package main

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// expiring is a context that ends when it was asked some times.
type expiring struct {
	context.Context
	left int
}

func (c *expiring) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestATenureThatEndsWhileItBegins: whenever the connection is lost while the
// session is being opened, there is none to hand over.
func TestATenureThatEndsWhileItBegins(t *testing.T) {
	for asked := 0; ; asked++ {
		tenure := &tenure{options: &options{db: "memory", workers: 1}, stdout: io.Discard, stderr: io.Discard}
		s, err := tenure.open(&expiring{t.Context(), asked})
		if err == nil {
			require.Greater(t, asked, 1, "times the context was asked")
			_, _, err := tenure.handOver(t.Context())
			require.NoError(t, err)
			require.NoError(t, s.close())
			return
		}
		require.ErrorIs(t, err, context.Canceled)
		assert.Nil(t, s)
		handed, _, err := tenure.handOver(t.Context())
		require.NoError(t, err)
		assert.Nil(t, handed)
	}
}
