package rabbittest_test

import (
	"os"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/internal/rabbittest"
)

var node = sync.OnceValues(func() (*rabbittest.Node, error) { return rabbittest.New() })

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if n, err := node(); err == nil {
			_ = n.Close()
		}
		os.Exit(code)
	}))
}

func TestANodeThatIsKilledComesBackWithWhatWasConfirmed(t *testing.T) {
	n, err := node()
	require.NoError(t, err)
	queue := rabbittest.Name(t)
	ch := channel(t, n)
	_, err = ch.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(t, err)
	publish(t, ch, queue, "kept")

	require.NoError(t, n.Kill())
	_, err = amqp.Dial(n.URL())
	require.Error(t, err)
	require.NoError(t, n.Restart())

	d, ok, err := channel(t, n).Get(queue, true)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "kept", string(d.Body))
}

func channel(t *testing.T, n *rabbittest.Node) *amqp.Channel {
	t.Helper()
	ch, err := n.Dial(t).Channel()
	require.NoError(t, err)
	require.NoError(t, ch.Confirm(false))
	return ch
}

func publish(t *testing.T, ch *amqp.Channel, queue, body string) {
	t.Helper()
	confirm, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, true, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)})
	require.NoError(t, err)
	acked, err := confirm.WaitContext(t.Context())
	require.NoError(t, err)
	require.True(t, acked)
}
