package rabbit

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// MeasureConsume takes n messages per round out of a quorum queue that was
// filled before, with a window of prefetch messages. The plain client reads and
// acknowledges, each message for itself or half a window in one step; interlock
// reads the event, puts it in order, has a dispatcher with eight workers call
// an empty handler, keeps its number in memory, and acknowledges.
func MeasureConsume(ctx context.Context, url string, rounds, n, prefetch int) (Rows, error) {
	return race(ctx, &bench{url: url}, rounds, n, []contender{
		{Bare, consumeBare(prefetch, 1)},
		{BareMany, consumeBare(prefetch, max(1, prefetch/2))},
		{Interlock, consumeInterlock(prefetch)},
	})
}

// filled makes a queue with n messages.
func (b *bench) filled(ctx context.Context, n int) (name string, remove func(), err error) {
	name, remove, err = b.queue()
	if err != nil {
		return "", nil, err
	}
	p, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{Endpoint: b.endpoint(), Route: toQueue(name), Channels: 1, Window: 1024})
	if err == nil {
		err = errors.Join(sendInterlock(ctx, p, events(n)), p.Shutdown(ctx))
	}
	if err != nil {
		remove()
	}
	return name, remove, err
}

func consumeBare(prefetch, step int) func(ctx context.Context, b *bench, n int, start func()) error {
	return func(ctx context.Context, b *bench, n int, start func()) error {
		queue, remove, err := b.filled(ctx, n)
		if err != nil {
			return err
		}
		defer remove()
		start()
		conn, err := amqp.Dial(b.url)
		if err != nil {
			return err
		}
		defer conn.Close()
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		if err := ch.Qos(prefetch, 0, false); err != nil {
			return err
		}
		messages, err := ch.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		for i := 1; i <= n; i++ {
			m, ok := <-messages
			if !ok {
				return amqp.ErrClosed
			}
			if i%step == 0 || i == n {
				if err := m.Ack(step > 1); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func consumeInterlock(prefetch int) func(ctx context.Context, b *bench, n int, start func()) error {
	return func(ctx context.Context, b *bench, n int, start func()) error {
		queue, remove, err := b.filled(ctx, n)
		if err != nil {
			return err
		}
		defer remove()
		seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
			Store: ordering.NewMemory(), MaxEarlyTotal: max(1, prefetch/2), Logger: slog.New(slog.DiscardHandler),
			Handler:    func(context.Context, ordering.Job[*ordering.Event]) error { return nil },
			Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{Workers: 8},
		})
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		c, err := rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{
			Endpoint: b.endpoint(), Queue: queue, Prefetch: prefetch,
			Receiver: &counting{Receiver: rabbitmq.Events(seq), n: int64(n), all: stop},
		})
		if err != nil {
			return errors.Join(err, seq.Close())
		}
		start()
		return errors.Join(c.Run(ctx), seq.Close()) // it ends with the last message, and has acknowledged all
	}
}

// counting is a receiver that calls all when n messages were acknowledged.
type counting struct {
	rabbitmq.Receiver
	n    int64
	done atomic.Int64
	all  func()
}

func (c *counting) Receive(ctx context.Context, m amqp.Delivery, settle rabbitmq.Settle) error {
	return c.Receiver.Receive(ctx, m, func(s rabbitmq.Settlement) {
		settle(s)
		if c.done.Add(1) == c.n {
			c.all()
		}
	})
}
