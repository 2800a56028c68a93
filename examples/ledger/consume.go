package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher/rabbitmq"
	"github.com/interlock-go/interlock/examples/ledger/internal/queue"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/ordering"
)

// consume takes messages from a queue, and over HTTP if it is to, until ctx
// ends: tenure after tenure, with a summary of each.
func (o *options) consume(ctx context.Context, stdout, stderr io.Writer) (good bool, err error) {
	var listener net.Listener
	if o.listen != "" {
		if listener, err = o.openListener(ctx, stderr); err != nil {
			return false, err
		}
		defer listener.Close() // an error says that the server has closed it
	}
	good = true
	for {
		t := &tenure{options: o, listener: listener, stdout: stdout, stderr: stderr}
		well, another, err := t.run(ctx)
		good = good && well
		if err != nil || !another || ctx.Err() != nil {
			return good, err
		}
	}
}

// standsBy tells whether another program may have the queue and the database
// before and after a tenure. One that listens takes messages at any time, and a
// database in memory is nobody else's.
func (o *options) standsBy() bool { return o.listen == "" && o.db != store.InMemory }

// newConsumer makes the consumer of a tenure.
func (t *tenure) newConsumer() (*rabbitmq.Consumer, error) {
	endpoint := t.options.endpoint(t.stderr)
	return rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{
		Endpoint:   endpoint,
		Queue:      t.options.queue,
		Receiver:   reported{queue.Checked(t), endpoint.Logger, t.options.queue},
		Prefetch:   queue.Window,
		DeadLetter: rabbitmq.Address{Key: queue.DeadLetters(t.options.queue)},
		Grace:      2 * patience, // for requests over HTTP, and then for what else runs
	})
}

// reported is a receiver whose dead letters are logged.
type reported struct {
	rabbitmq.Receiver
	logger *slog.Logger
	queue  string
}

// Receive implements [rabbitmq.Receiver].
func (r reported) Receive(ctx context.Context, m amqp.Delivery, settle rabbitmq.Settle) error {
	return r.Receiver.Receive(ctx, m, func(what rabbitmq.Settlement) {
		if what != rabbitmq.Ack() && what != rabbitmq.Return() {
			r.logger.Error("a message is put aside: its header "+rabbitmq.ReasonHeader+" says why",
				"in", queue.DeadLetters(r.queue), "message", m.MessageId, "numbers", m.Headers[ordering.SequenceIDHeader])
		}
		settle(what)
	})
}

// endpoint is the broker, with the queue that is to be there.
func (o *options) endpoint(stderr io.Writer) rabbitmq.Endpoint {
	return rabbitmq.Endpoint{
		URL: o.amqp, Topology: queue.Topology(o.queue), Logger: slog.New(slog.NewTextHandler(stderr, nil)),
	}
}

// input is what messages over HTTP are numbered for, which is new each time, or
// one for all that comes from the queue, with numbers.
func (t *tenure) input() *input {
	name := "the queue " + t.options.queue
	if t.listener == nil {
		return &input{identity: identity{name: name, identity: name}}
	}
	return &input{identity: identity{name: fmt.Sprintf("%s, and HTTP at %s", name, t.listener.Addr())}}
}
