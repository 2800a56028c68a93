package rabbitmq

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/interlock-go/interlock/dispatcher/view"
)

// Counts are told while messages are settled. Those of what was acknowledged and of dead
// letters only grow, and neither is taken for the other: what is less for a moment would be
// taken for a counter that begins anew, and what is below nothing for a very large one.
func TestStatsWhileMessagesAreSettled(t *testing.T) {
	const n = 100_000
	w := &consuming{Consumer: &Consumer{}, deliveries: newDeliveries(nil, 8)}
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		dead := DeadLetter(errors.New("poison"))
		for range n {
			w.deliveries.received()
			w.open.Add(1)
			w.leave(1, dead)
		}
	}()
	for over := false; !over; {
		select {
		case <-settled:
			over = true
		default:
		}
		list, err := w.Metrics(t.Context())
		assert.NoError(t, err)
		for _, m := range list {
			if m.Name == "interlock.consumer.settled" && !assert.Equal(t, view.Point{Of: "acknowledged"}, m.Points[0]) {
				return
			}
		}
	}
	stats := w.Stats()
	assert.EqualValues(t, n, stats.Acked)
	assert.EqualValues(t, n, stats.DeadLettered)
}
