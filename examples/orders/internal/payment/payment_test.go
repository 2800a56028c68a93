package payment_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/examples/orders/internal/payment"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// A test that waits for longer than this counts as hanging.
const (
	waitAtMost = time.Minute
	tick       = time.Millisecond
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, gateway *payment.Gateway) *payment.Service {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "payment.db"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, store.Close()) })
	s, err := payment.New(t.Context(), store, gateway)
	require.NoError(t, err)
	return s
}

// Whatever the gateway does, an order is charged once.
func TestAnOrderIsChargedOnce(t *testing.T) {
	gateway := &payment.Gateway{Unreliable: 0.4}
	s := open(t, gateway)
	until := func(call func() error) {
		require.Eventually(t, func() bool { return call() == nil }, waitAtMost, tick)
	}
	r := payment.Request{Order: "1", Card: "card", Cents: 500}
	for range 3 {
		until(func() error { _, err := s.Authorize(t.Context(), "1/authorize/do", r); return err })
	}
	for range 3 {
		until(func() error { _, err := s.Capture(t.Context(), "1/capture/do", r); return err })
	}
	assert.EqualValues(t, 500, gateway.Captured())
	sum, err := s.Sum(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 500, sum)
	for range 2 {
		until(func() error { _, err := s.Void(t.Context(), "1/authorize/undo", r); return err })
	}
	assert.Zero(t, gateway.Captured())
	a, err := s.Status(t.Context(), "", r)
	require.NoError(t, err)
	assert.Equal(t, payment.Refunded, a.Status)
}

func TestRefusals(t *testing.T) {
	s := open(t, &payment.Gateway{})
	r := payment.Request{Order: "1", Card: "declined", Cents: 500}
	_, err := s.Authorize(t.Context(), "1/authorize/do", r)
	require.ErrorAs(t, err, new(*wire.Refusal))
	_, err = s.Capture(t.Context(), "1/capture/do", r)
	require.ErrorContains(t, err, "the payment is none")

	t.Log("an undo that comes first")
	r = payment.Request{Order: "2", Card: "card", Cents: 500}
	_, err = s.Void(t.Context(), "2/authorize/undo", r)
	require.NoError(t, err)
	_, err = s.Authorize(t.Context(), "2/authorize/do", r)
	require.ErrorContains(t, err, "was cancelled")
	open, err := s.Open(t.Context())
	require.NoError(t, err)
	assert.Zero(t, open)
}

// A gateway that is away is left alone by the breaker.
func TestTheBreakerOpens(t *testing.T) {
	s := open(t, &payment.Gateway{Unreliable: 1.99}) // it never answers
	require.Eventually(t, func() bool {
		_, err := s.Authorize(t.Context(), "1/authorize/do", payment.Request{Order: "1", Card: "card", Cents: 1})
		return assert.Error(t, err) && err.Error() == "payment: the gateway, after 4 attempts: circuit breaker is open"
	}, waitAtMost, tick)
}
