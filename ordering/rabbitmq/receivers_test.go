package rabbitmq_test

import (
	"context"
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// What stopped a sequencer or a dispatcher is not the fault of what comes next,
// whatever it was.
func TestWhoIsStoppedRefusesNothing(t *testing.T) {
	for name, cause := range map[string]error{
		"a bad event":   &ordering.EventError{ID: "x", Reason: ordering.ErrNoPosition},
		"one too large": dispatcher.ErrTooLarge,
		"permanent":     dispatcher.Permanent(errors.New("bad")),
	} {
		t.Run(name, func(t *testing.T) {
			sequencer, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
				Store: ordering.NewMemory(), Logger: quiet(), Failure: dispatcher.Stop,
				Handler:    func(context.Context, ordering.Job[*ordering.Event]) error { return cause },
				Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{MaxAttempts: 1},
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, sequencer.Close()) }()
			plain, err := dispatcher.New(dispatcher.Config[string]{
				Keys: func(_ string, claim *lockkeys.Claim) error {
					claim.Exclusive(lockkeys.Must("a"))
					return nil
				},
				Handler: func(context.Context, string) error { return cause },
				Failure: dispatcher.Stop, MaxAttempts: 1, Logger: quiet(),
			})
			require.NoError(t, err)
			defer func() { _ = plain.Close() }() // the message that failed is unfinished
			decode := func(m amqp.Delivery) (string, error) { return m.MessageId, nil }

			for _, r := range []struct {
				rabbitmq.Receiver
				err     func() error
				stopped error
			}{
				{rabbitmq.Events(sequencer), sequencer.Err, ordering.ErrStopped},
				{rabbitmq.Messages(plain, decode), plain.Err, dispatcher.ErrStopped},
			} {
				receive := func(id string, settle rabbitmq.Settle) error {
					return r.Receive(t.Context(), amqp.Delivery{MessageId: id, Headers: amqp.Table{ordering.SequenceIDHeader: "a=" + id}}, settle)
				}
				require.NoError(t, receive("1", func(rabbitmq.Settlement) {}))
				require.Eventually(t, func() bool { return r.err() != nil }, waitAtMost, tick)
				err := receive("2", func(s rabbitmq.Settlement) {
					require.Equal(t, rabbitmq.Requeue(), s, "it is no dead letter")
				})
				require.ErrorIs(t, err, r.stopped)
			}
		})
	}
}

// A broker that has the connection open and says nothing is given up.
func TestABrokerThatDoesNotAnswer(t *testing.T) {
	link := broker(t).Link(t)
	conn, err := rabbitmq.Dial(link.URL(), amqp.Config{Heartbeat: time.Hour})(t.Context())
	require.NoError(t, err)
	ask := func() error {
		_, err := conn.Channel()
		return err
	}
	require.NoError(t, rabbitmq.Answered(t.Context(), time.Hour, conn, ask))
	link.Stall()
	require.ErrorIs(t, rabbitmq.Answered(t.Context(), 50*time.Millisecond, conn, ask), rabbitmq.ErrNoAnswer)
	require.True(t, conn.IsClosed())
}
