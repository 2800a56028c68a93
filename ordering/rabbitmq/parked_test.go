package rabbitmq_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// A message for which nothing more may be parked is not the end of its consumer:
// it waits in its place, which is told, until an operator has decided.
func TestAsMuchIsParkedAsMayBe(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{DeliveryLimit: 2})
	diary := newDiary()
	var broken atomic.Bool
	broken.Store(true)
	plain, err := dispatcher.New(dispatcher.Config[string]{
		Keys: func(m string, c *lockkeys.Claim) error { c.Exclusive(lockkeys.Must(m)); return nil },
		Handler: func(_ context.Context, m string) error {
			if m == "bad" && broken.Load() {
				return errors.New("broken")
			}
			defer diary.begin(m)()
			return nil
		},
		MaxAttempts: 1, Failure: dispatcher.Park, MaxParked: 2, Logger: quiet(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, plain.Close()) })
	s := d.consume(rabbitmq.ConsumerConfig{
		Receiver: rabbitmq.Messages(plain, func(m amqp.Delivery) (string, error) { return string(m.Body), nil }),
	})
	for stats := plain.Stats; stats().Parked+stats().Behind < 2; {
		before := stats()
		d.send("", "", "bad")
		require.Eventually(t, func() bool { return stats().Parked+stats().Behind > before.Parked+before.Behind }, waitAtMost, tick)
	}
	d.send("", "", "bad")
	d.send("", "", "good")
	require.Eventually(t, func() bool { return errors.Is(s.consumer.Ready(), dispatcher.ErrTooManyParked) }, waitAtMost, tick)
	require.Empty(t, diary.all())
	broken.Store(false)
	require.NoError(t, plain.Resume(t.Context(), plain.Parked()[0].ID))
	require.Eventually(t, func() bool { return len(diary.all()) == 4 && s.consumer.Stats().Open == 0 }, waitAtMost, tick)
	require.NoError(t, s.consumer.Ready())
	assert.EqualValues(t, 1, s.consumer.Stats().Channels)
	s.end(t)
	d.requireEmpty()
}
