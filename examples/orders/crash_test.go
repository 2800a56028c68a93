package main

import (
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/orders/internal/order"
	"github.com/interlock-go/interlock/examples/orders/internal/services"
	"github.com/interlock-go/interlock/examples/orders/internal/shop"
	"github.com/interlock-go/interlock/examples/orders/internal/views"
	"github.com/interlock-go/interlock/internal/loopback"
)

// The payment service is killed again and again while checkouts call it, and is away for
// a while. Those that cannot be paid in time are cancelled; nothing is charged twice, and
// nothing is left over.
func TestThePaymentServiceIsKilled(t *testing.T) {
	port, err := loopback.New()
	require.NoError(t, err)
	defer func() { assert.NoError(t, port.Close()) }()
	node := broker(t)
	for transport, at := range map[string]struct {
		url  string
		args []string
	}{
		services.HTTP: {"http://" + port.Addr(0), nil},
		services.GRPC: {"grpc://" + port.Addr(0), nil},
		services.AMQP: {node.URL(), []string{"-broker", node.URL()}},
	} {
		t.Run(transport, func(t *testing.T) {
			dir := t.TempDir()
			killPayment(t, at.url, dir, append([]string{"-service", "payment", "-listen", port.Addr(0), "-dir", dir, "-transport", transport}, at.args...))
		})
	}
}

// killPayment kills the payment service, which has a URL, its databases in a folder, and
// arguments.
func killPayment(t *testing.T, url, away string, payments []string) {
	p := start(t, payments...)
	o, err := parse([]string{"-payment", url}, io.Discard)
	require.NoError(t, err)
	o.Dir = t.TempDir()
	s, err := services.Open(t.Context(), o.Options)
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	sh, err := shop.Open(t.Context(), o.shopDB(), s.Callers, true, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer func() { assert.NoError(t, sh.Close()) }()
	ended := func() bool {
		n, err := sh.Unended(t.Context())
		return assert.NoError(t, err) && n == 0
	}
	const orders = 120 / share
	require.NoError(t, s.Inventory.Stock(t.Context(), "kettle", orders))
	for n := range orders {
		placement := kettle(1)
		placement.Customer = fmt.Sprint("customer-", n%7)
		_, err := sh.Place(t.Context(), fmt.Sprint(n), placement)
		require.NoError(t, err)
		if n == 0 { // it is completed, however long the service is away from the next ones
			require.Eventually(t, ended, waitAtMost, 10*time.Millisecond)
		}
		if n%(orders/3) == orders/6 {
			p.kill(t)
			<-time.After(50 * time.Millisecond) // how long it is away
			p = start(t, payments...)
		}
	}
	require.Eventually(t, ended, waitAtMost, 10*time.Millisecond)
	parked, err := sh.Sagas.Parked(t.Context())
	require.NoError(t, err)
	require.Empty(t, parked)
	p.kill(t)

	require.NoError(t, sh.CatchUp(t.Context()))
	groups, err := sh.Summary(t.Context())
	require.NoError(t, err)
	by := map[order.Status]views.Group{}
	for _, g := range groups {
		by[g.Status] = g
	}
	assert.Equal(t, orders, by[order.Completed].Orders+by[order.Cancelled].Orders)
	assert.NotZero(t, by[order.Completed].Orders)
	mine := *o
	mine.Payment, mine.Dir, mine.Inventory, mine.Shipping = "", away, "http://127.0.0.1:1", "http://127.0.0.1:1"
	books, err := services.Open(t.Context(), mine.Options)
	require.NoError(t, err)
	defer func() { assert.NoError(t, books.Close()) }()
	sum, err := books.Payment.Sum(t.Context())
	require.NoError(t, err)
	assert.Equal(t, by[order.Completed].Cents, sum, "money captured = orders completed")
	captured, err := books.Gateway.Captured(t.Context())
	require.NoError(t, err)
	assert.Equal(t, sum, captured)
	open, err := books.Payment.Open(t.Context())
	require.NoError(t, err)
	assert.Zero(t, open)
	counts, err := s.Inventory.Counts(t.Context())
	require.NoError(t, err)
	assert.Zero(t, counts.Reserved)
	assert.EqualValues(t, by[order.Completed].Orders, counts.Sold)
}
