package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/queue"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/ordering"
)

// node is the broker that the tests share, but for those that kill one.
var (
	node        = sync.OnceValues(func() (*rabbittest.Node, error) { return rabbittest.New() })
	nodeStarted atomic.Bool
)

func closeBroker() {
	if nodeStarted.Load() {
		if n, err := node(); err == nil {
			_ = n.Close()
		}
	}
}

// desk is a queue that no other test has, with an open channel.
type desk struct {
	*amqp.Channel
	node *rabbittest.Node
	name string
}

// newDesk declares a queue at the broker that the tests share.
func newDesk(t *testing.T) *desk {
	t.Helper()
	n, err := node()
	require.NoError(t, err)
	nodeStarted.Store(true)
	return deskAt(t, n)
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

// counts returns how many messages the queues have, unacknowledged ones too.
func counts(n *rabbittest.Node) map[string]string {
	found := map[string]string{}
	text, err := n.Ctl("list_queues", "name", "messages", "--no-table-headers")
	if err != nil {
		return found
	}
	for line := range strings.Lines(text) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), "\t")
		found[name] = count
	}
	return found
}

// requireCounts waits until the queue and that for dead letters have so many
// messages.
func (d *desk) requireCounts(t *testing.T, messages, dead string) {
	t.Helper()
	var found map[string]string
	require.Eventually(t, func() bool {
		found = counts(d.node)
		return found[d.name] == messages && found[queue.DeadLetters(d.name)] == dead
	}, time.Minute, 100*time.Millisecond, "%v", found)
}

// requireConsumers waits until the queue has so many consumers, of which one
// gets messages.
func (d *desk) requireConsumers(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, err := d.node.Ctl("list_consumers", "queue_name", "--no-table-headers")
		return err == nil && strings.Count(text, d.name) == n
	}, time.Minute, 100*time.Millisecond)
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
	go func() { w.code <- run(ctx, args, strings.NewReader(""), &w.stdout, &w.stderr) }()
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
	require.Eventually(t, func() bool { return expression.MatchString(w.stderr.String()) }, time.Minute, 5*time.Millisecond,
		"%s is not in %s", want, &w.stderr)
	return expression.FindString(w.stderr.String())
}

// requireJournal waits until so many messages have been applied.
func requireJournal(t *testing.T, db string, applied int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(journalOf(t, db)) >= applied }, time.Minute, 10*time.Millisecond)
	assert.Len(t, journalOf(t, db), applied)
}
