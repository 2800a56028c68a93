package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/queue"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/ordering"
)

// desk is a queue that no other test has, with an open channel.
type desk struct {
	*amqp.Channel
	node *rabbittest.Node
	name string
}

// newDesk declares a queue at the broker that the tests share.
func newDesk(t *testing.T) *desk {
	t.Helper()
	return deskAt(t, broker(t))
}

func deskAt(t *testing.T, n *rabbittest.Node) *desk {
	t.Helper()
	ch, err := n.Dial(t).Channel()
	require.NoError(t, err)
	d := &desk{ch, n, rabbittest.Name(t)}
	require.NoError(t, queue.Topology(d.name).Declare(ch))
	require.NoError(t, ch.Confirm(false))
	return d
}

// args are those of the program for the queue.
func (d *desk) args(more ...string) []string {
	return append([]string{"-amqp", d.node.URL(), "-queue", d.name}, more...)
}

// send publishes a message with the given numbers; "" is for none.
func (d *desk) send(t *testing.T, sequence, body string) {
	t.Helper()
	d.sendAs(t, "", sequence, body)
}

// sendAs publishes a message with an ID.
func (d *desk) sendAs(t *testing.T, id, sequence, body string) {
	t.Helper()
	headers := amqp.Table{}
	if sequence != "" {
		headers[ordering.SequenceIDHeader] = sequence
	}
	sent, err := d.PublishWithDeferredConfirm("", d.name, true, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: id, Headers: headers, Body: []byte(body)})
	require.NoError(t, err)
	require.True(t, sent.Wait())
}

// requireCounts waits until the queue and that for dead letters have so many
// messages, unacknowledged ones too.
func (d *desk) requireCounts(t *testing.T, messages, dead int) {
	t.Helper()
	requireSoon(t, func() error {
		for queue, want := range map[string]int{d.name: messages, queue.DeadLetters(d.name): dead} {
			if got, err := d.node.Count(queue); err != nil || got != want {
				return errors.Join(err, fmt.Errorf("%s has %d messages, not %d", queue, got, want))
			}
		}
		return nil
	})
}

// requireConsumers waits until the queue has so many consumers, of which one
// gets messages.
func (d *desk) requireConsumers(t *testing.T, want int) {
	t.Helper()
	requireSoon(t, func() error {
		got, err := d.node.Consumers(d.name)
		if err != nil || got != want {
			return errors.Join(err, fmt.Errorf("%s has %d consumers, not %d", d.name, got, want))
		}
		return nil
	})
}

// output takes what a program writes while it is read.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// worker is the program while it takes messages.
type worker struct {
	stdout, stderr output
	cancel         context.CancelFunc
	code           chan int
}

// begin starts the program; end ends it as a signal would.
func begin(t *testing.T, args ...string) *worker {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &worker{cancel: cancel, code: make(chan int, 1)}
	set := checked(t)
	go func() { w.code <- run(ctx, args, strings.NewReader(""), &w.stdout, &w.stderr, set) }()
	t.Cleanup(cancel)
	return w
}

func (w *worker) end(t *testing.T) (code int, summary string) {
	t.Helper()
	w.cancel()
	code = <-w.code
	return code, w.stdout.String() + w.stderr.String()
}

// requireSays waits until the program has said something.
func (w *worker) requireSays(t *testing.T, want string) string {
	t.Helper()
	expression := regexp.MustCompile(want)
	requireSoon(t, func() error {
		if said := w.stderr.String(); !expression.MatchString(said) {
			return fmt.Errorf("%s is not in %s", want, said)
		}
		return nil
	})
	return expression.FindString(w.stderr.String())
}
