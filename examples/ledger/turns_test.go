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

// TestATermThatEndsWhileItBegins: whenever the connection is lost while a term
// begins, there is none to hand over.
func TestATermThatEndsWhileItBegins(t *testing.T) {
	o := &options{db: "memory", workers: 1}
	for asked := 0; ; asked++ {
		term, err := o.begin(&expiring{t.Context(), asked}, io.Discard, o.queueInput(), nil)
		if err == nil {
			require.Greater(t, asked, 1, "times the context was asked")
			assert.NoError(t, term.handOver(t.Context()).Failure)
			require.NoError(t, term.close())
			return
		}
		require.ErrorIs(t, err, context.Canceled)
		assert.Nil(t, term)
	}
}
