package inventory_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/examples/orders/internal/inventory"
	"github.com/interlock-go/interlock/examples/orders/internal/order"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *inventory.Service {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "inventory.db"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, store.Close()) })
	s, err := inventory.New(t.Context(), store, time.Minute)
	require.NoError(t, err)
	return s
}

func kettles(id string, n int64) inventory.Request {
	return inventory.Request{Order: id, Lines: []order.Line{{Product: "kettle", Quantity: n}}}
}

func requireCounts(t *testing.T, s *inventory.Service, available, reserved, sold int64) {
	t.Helper()
	c, err := s.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, inventory.Counts{Available: available, Reserved: reserved, Sold: sold}, c)
}

// A new inventory is filled once, with all products or none.
func TestFill(t *testing.T) {
	s := open(t)
	products := []string{"kettle", "cup"}
	require.Error(t, s.Fill(t.Context(), products, -1), "fewer than none")
	requireCounts(t, s, 0, 0, 0)
	for range 2 {
		require.NoError(t, s.Fill(t.Context(), products, 5))
		requireCounts(t, s, 10, 0, 0)
	}
}

// Many who want more than there is get what there is.
func TestNothingIsOversold(t *testing.T) {
	s := open(t)
	require.NoError(t, s.Stock(t.Context(), "kettle", 30))
	var all sync.WaitGroup
	var reserved, refused atomic.Int64
	for i := range 40 {
		all.Go(func() {
			id := fmt.Sprint(i)
			for {
				_, err := s.Reserve(t.Context(), id+"/reserve/do", kettles(id, 2))
				switch err.(type) {
				case nil:
					reserved.Add(2)
				case *wire.Refusal:
					refused.Add(1)
				default:
					continue // the product was changed meanwhile
				}
				return
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 30, reserved.Load())
	assert.EqualValues(t, 25, refused.Load())
	requireCounts(t, s, 0, 30, 0)
}

func TestAReservation(t *testing.T) {
	s := open(t)
	require.NoError(t, s.Stock(t.Context(), "kettle", 10))
	for range 3 { // a call is repeated
		_, err := s.Reserve(t.Context(), "1/reserve/do", kettles("1", 4))
		require.NoError(t, err)
		requireCounts(t, s, 6, 4, 0)
	}
	for range 2 {
		_, err := s.Confirm(t.Context(), "1/confirm/do", kettles("1", 4))
		require.NoError(t, err)
		requireCounts(t, s, 6, 0, 4)
	}
	for range 2 {
		_, err := s.Release(t.Context(), "1/reserve/undo", kettles("1", 4))
		require.NoError(t, err)
		requireCounts(t, s, 10, 0, 0)
	}

	t.Log("an undo that comes first refuses what comes late")
	_, err := s.Release(t.Context(), "2/reserve/undo", kettles("2", 4))
	require.NoError(t, err)
	_, err = s.Reserve(t.Context(), "2/reserve/do", kettles("2", 4))
	require.ErrorAs(t, err, new(*wire.Refusal))
	requireCounts(t, s, 10, 0, 0)

	t.Log("what is not confirmed in time is free again")
	_, err = s.Reserve(t.Context(), "3/reserve/do", kettles("3", 4))
	require.NoError(t, err)
	_, err = s.Reserve(t.Context(), "4/reserve/do", kettles("4", 1))
	require.NoError(t, err)
	_, err = s.Confirm(t.Context(), "4/confirm/do", kettles("4", 1))
	require.NoError(t, err)
	n, err := s.Expire(t.Context(), time.Now())
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = s.Expire(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	requireCounts(t, s, 9, 0, 1)
	_, err = s.Confirm(t.Context(), "3/confirm/do", kettles("3", 4))
	require.ErrorContains(t, err, "has expired")
	_, err = s.Reserve(t.Context(), "no key", kettles("5", 1))
	require.ErrorAs(t, err, new(*wire.Refusal))
}
