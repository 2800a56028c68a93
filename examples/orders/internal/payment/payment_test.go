package payment_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/examples/orders/internal/payment"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// A test that waits for longer than this counts as hanging.
const (
	waitAtMost = time.Minute
	tick       = time.Millisecond
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens the service with a gateway that fails a share of its calls.
func open(t *testing.T, unreliable float64) (*payment.Service, *payment.Gateway) {
	dir := t.TempDir()
	database := func(name string) *sqlstore.Store {
		store, err := sqlite.Open(t.Context(), filepath.Join(dir, name))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, store.Close()) })
		return store
	}
	gateway, err := payment.NewGateway(t.Context(), database("gateway.db"), unreliable)
	require.NoError(t, err)
	s, err := payment.New(t.Context(), database("payment.db"), gateway)
	require.NoError(t, err)
	return s, gateway
}

func requireCaptured(t *testing.T, gateway *payment.Gateway, cents int64) {
	t.Helper()
	got, err := gateway.Captured(t.Context())
	require.NoError(t, err)
	require.Equal(t, cents, got)
}

// Whatever the gateway does, an order is charged once.
func TestAnOrderIsChargedOnce(t *testing.T) {
	s, gateway := open(t, 0.4)
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
	requireCaptured(t, gateway, 500)
	sum, err := s.Sum(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 500, sum)
	for range 2 {
		until(func() error { _, err := s.Void(t.Context(), "1/authorize/undo", r); return err })
	}
	requireCaptured(t, gateway, 0)
	a, err := s.Status(t.Context(), "", r)
	require.NoError(t, err)
	assert.Equal(t, payment.Refunded, a.Status)
}

func TestRefusals(t *testing.T) {
	s, _ := open(t, 0)
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

	t.Log("one that is voided is not authorised, whoever asks")
	r = payment.Request{Order: "3", Card: "card", Cents: 500}
	_, err = s.Authorize(t.Context(), "3/authorize/do", r)
	require.NoError(t, err)
	_, err = s.Void(t.Context(), "3/authorize/undo", r)
	require.NoError(t, err)
	_, err = s.Authorize(t.Context(), "3/authorize/do", r)
	require.ErrorContains(t, err, "the payment is voided")
}

// A payment that is authorised while it is voided is not left at the gateway.
func TestVoidedWhileItIsAuthorized(t *testing.T) {
	s, gateway := open(t, 0)
	for n := range 100 {
		r := payment.Request{Order: fmt.Sprint(n), Card: "card", Cents: 500}
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := s.Authorize(t.Context(), r.Order+"/authorize/do", r); err != nil {
				assert.ErrorAs(t, err, new(*wire.Refusal))
			}
		})
		both.Go(func() {
			_, err := s.Void(t.Context(), r.Order+"/authorize/undo", r)
			assert.NoError(t, err)
		})
		both.Wait()
		require.ErrorAs(t, gateway.Capture(t.Context(), r.Order), new(*wire.Refusal), "nobody will void order %d any more", n)
	}
}

// A payment that comes after its void is refused only once it is certain that nothing of it is
// left at the gateway.
func TestRefusedWhenItIsCertain(t *testing.T) {
	dir := t.TempDir()
	var stores [2]*sqlstore.Store
	for i := range stores {
		store, err := sqlite.Open(t.Context(), filepath.Join(dir, fmt.Sprint(i)))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, store.Close()) })
		stores[i] = store
	}
	service := func(unreliable float64) (*payment.Service, *payment.Gateway) {
		gateway, err := payment.NewGateway(t.Context(), stores[0], unreliable)
		require.NoError(t, err)
		s, err := payment.New(t.Context(), stores[1], gateway)
		require.NoError(t, err)
		return s, gateway
	}
	good, gateway := service(0)
	var all sync.WaitGroup
	for n := range 200 {
		r := payment.Request{Order: fmt.Sprint(n), Card: "card", Cents: 500}
		_, err := good.Void(t.Context(), r.Order+"/authorize/undo", r)
		require.NoError(t, err)
		bad, _ := service(1.6) // one with its breaker closed
		all.Go(func() {
			if _, err := bad.Authorize(t.Context(), r.Order+"/authorize/do", r); errors.As(err, new(*wire.Refusal)) {
				assert.ErrorAs(t, gateway.Capture(t.Context(), r.Order), new(*wire.Refusal), "order %d", n)
			}
		})
	}
	all.Wait()
}

// A gateway that is away is left alone by the breaker.
func TestTheBreakerOpens(t *testing.T) {
	s, _ := open(t, 2) // it never answers
	require.Eventually(t, func() bool {
		_, err := s.Authorize(t.Context(), "1/authorize/do", payment.Request{Order: "1", Card: "card", Cents: 1})
		return assert.Error(t, err) && err.Error() == "payment: the gateway, after 4 attempts: circuit breaker is open"
	}, waitAtMost, tick)
}
