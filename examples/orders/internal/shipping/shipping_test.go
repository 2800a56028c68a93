package shipping_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/examples/orders/internal/shipping"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAShipment(t *testing.T) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "shipping.db"))
	require.NoError(t, err)
	defer func() { assert.NoError(t, store.Close()) }()
	s, err := shipping.New(t.Context(), store)
	require.NoError(t, err)
	r := shipping.Request{Order: "1", Country: "DE"}

	_, err = s.Dispatch(t.Context(), "1/dispatch/do", r)
	require.ErrorContains(t, err, "is not planned")
	planned, err := s.Plan(t.Context(), "1/plan/do", r)
	require.NoError(t, err)
	assert.Len(t, planned.Tracking, 12)
	again, err := s.Plan(t.Context(), "1/plan/do", r)
	require.NoError(t, err)
	assert.Equal(t, planned, again)
	_, err = s.Deliver(t.Context(), "", r)
	require.ErrorContains(t, err, "is not dispatched")
	for range 2 {
		a, err := s.Dispatch(t.Context(), "1/dispatch/do", r)
		require.NoError(t, err)
		assert.Equal(t, shipping.Answer{Tracking: planned.Tracking, Status: shipping.Dispatched}, a)
	}
	for range 2 {
		a, err := s.Deliver(t.Context(), "", r)
		require.NoError(t, err)
		assert.Equal(t, shipping.Delivered, a.Status)
	}

	t.Log("what is refused, and what comes late")
	_, err = s.Plan(t.Context(), "2/plan/do", shipping.Request{Order: "2", Country: "AQ"})
	require.ErrorAs(t, err, new(*wire.Refusal))
	_, err = s.Cancel(t.Context(), "3/plan/undo", shipping.Request{Order: "3"})
	require.NoError(t, err)
	_, err = s.Plan(t.Context(), "3/plan/do", shipping.Request{Order: "3", Country: "DE"})
	require.ErrorContains(t, err, "was cancelled")
	_, err = s.Plan(t.Context(), "4/plan/do", shipping.Request{Order: "4", Country: "DE"})
	require.NoError(t, err)
	a, err := s.Cancel(t.Context(), "4/plan/undo", shipping.Request{Order: "4"})
	require.NoError(t, err)
	assert.Equal(t, shipping.Cancelled, a.Status)
	n, err := s.Count(t.Context(), shipping.Planned)
	require.NoError(t, err)
	assert.Zero(t, n)
}
