package rabbitmq_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// Time limits of conditions that come true on any machine.
const (
	waitAtMost = 5 * time.Minute
	tick       = 5 * time.Millisecond
)

// desk is a queue and what is done with it in a test.
type desk struct {
	*testing.T
	node  *rabbittest.Node
	queue string
	ch    *amqp.Channel // the test's own
}

// newDesk declares a queue that no other test has.
func newDesk(t *testing.T, q rabbitmq.Queue) *desk {
	t.Helper()
	return newDeskOn(t, broker(t), q)
}

func newDeskOn(t *testing.T, node *rabbittest.Node, q rabbitmq.Queue) *desk {
	t.Helper()
	d := &desk{T: t, node: node, queue: rabbittest.Name(t)}
	q.Name = d.queue
	ch, err := d.node.Dial(t).Channel()
	require.NoError(t, err)
	d.ch = ch
	require.NoError(t, rabbitmq.Topology{Queues: []rabbitmq.Queue{q}}.Declare(ch))
	t.Cleanup(func() { _, _ = ch.QueueDelete(d.queue, false, false, false) })
	return d
}

// send publishes a message with a sequence ID, and waits until it is there.
func (d *desk) send(id, sequence, body string) {
	d.Helper()
	d.publish(amqp.Publishing{MessageId: id, Body: []byte(body), Headers: amqp.Table{ordering.SequenceIDHeader: sequence}})
}

func (d *desk) publish(m amqp.Publishing) {
	d.Helper()
	m.DeliveryMode = amqp.Persistent
	require.NoError(d, d.ch.PublishWithContext(d.Context(), "", d.queue, true, false, m))
}

// left is how many messages are ready in the queue.
func (d *desk) left(queue string) int {
	d.Helper()
	q, err := d.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	require.NoError(d, err)
	return q.Messages
}

// requireEmpty waits until the queue has nothing, and no consumer that could have
// something of it: those of the test have ended.
func (d *desk) requireEmpty() {
	d.Helper()
	require.Eventually(d, func() bool {
		q, err := d.ch.QueueDeclarePassive(d.queue, true, false, false, false, nil)
		return err == nil && q.Consumers == 0 && q.Messages == 0
	}, waitAtMost, tick)
}

// shift is a consumer at work.
type shift struct {
	consumer *rabbitmq.Consumer
	stop     context.CancelFunc
	done     chan error
}

// wrapped is a receiver around another one, as for logs or traces: it has a
// context for each message.
type wrapped struct{ rabbitmq.Receiver }

func (w wrapped) Receive(ctx context.Context, m amqp.Delivery, settle rabbitmq.Settle) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return w.Receiver.Receive(ctx, m, settle)
}

// consume starts a consumer, which ends with the test at the latest. Its
// receiver is wrapped.
func (d *desk) consume(cfg rabbitmq.ConsumerConfig) *shift {
	d.Helper()
	if cfg.URL == "" {
		cfg.URL = d.node.URL()
	}
	cfg.Queue, cfg.Receiver = d.queue, wrapped{cfg.Receiver}
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	c, err := rabbitmq.NewConsumer(cfg)
	require.NoError(d, err)
	ctx, stop := context.WithCancel(context.Background())
	s := &shift{c, stop, make(chan error, 1)}
	go func() { s.done <- c.Run(ctx) }()
	d.Cleanup(stop)
	return s
}

func (s *shift) end(t *testing.T) {
	t.Helper()
	s.stop()
	require.NoError(t, <-s.done)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// diary is what handlers did: begin and end of each run.
type diary struct {
	mu   sync.Mutex
	runs []string // "a=1", in the order in which they began
	open map[string]int
	most map[string]int // runs of one event at the same time
}

func newDiary() *diary { return &diary{open: map[string]int{}, most: map[string]int{}} }

func (d *diary) begin(what string) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runs = append(d.runs, what)
	d.open[what]++
	d.most[what] = max(d.most[what], d.open[what])
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.open[what]--
	}
}

func (d *diary) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.runs...)
}

// requireOnceInOrder checks that each of the numbers up to last ran once, in
// order, on each stream.
func (d *diary) requireOnceInOrder(t *testing.T, streams []string, last int) {
	t.Helper()
	next := map[string]int{}
	for _, run := range d.all() {
		var stream string
		var n int
		_, err := fmt.Sscanf(run, "%1s=%d", &stream, &n)
		require.NoError(t, err, run)
		next[stream]++
		require.Equal(t, next[stream], n, "on stream %s: %v", stream, d.all())
	}
	for _, stream := range streams {
		require.Equal(t, last, next[stream], "stream %s", stream)
	}
}

// office is a sequencer with a handler that writes a diary.
type office struct {
	*ordering.Sequencer[*ordering.Event]
	diary *diary
	store ordering.Store
}

func newOffice(t *testing.T, store ordering.Store, handler ordering.Handler[*ordering.Event], change func(*ordering.Config[*ordering.Event])) *office {
	t.Helper()
	o := &office{diary: newDiary(), store: store}
	cfg := ordering.Config[*ordering.Event]{
		Store: store, Logger: quiet(), GapTimeout: 100 * time.Millisecond,
		Handler: func(ctx context.Context, job ordering.Job[*ordering.Event]) error {
			defer o.diary.begin(job.Event.Positions[0].String())()
			if handler == nil {
				return nil
			}
			return handler(ctx, job)
		},
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	o.Sequencer, err = ordering.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, o.Close()) })
	return o
}
