// Package plain is the ordinary way to send events through RabbitMQ: a producer
// that connects again when it has to and tries an event until it could be sent,
// and a consumer with several workers that acknowledge what they have done.
// Queue and messages are durable. Nothing has numbers.
package plain

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/examples/failover/internal/feed"
)

const (
	again     = 100 * time.Millisecond // between attempts to connect
	confirmBy = 5 * time.Second        // how long a confirmation may take
	endBy     = 10 * time.Second       // what is left at the end
)

// Produce is a producer. It commits an order and sends it then; while that is
// not possible, orders wait in memory.
func Produce(ctx context.Context, c *feed.Child) error {
	db, err := c.OpenDB(ctx, "producer.db", feed.OrdersSchema)
	if err != nil {
		return err
	}
	defer db.Close()
	p := &producer{child: c}
	defer p.disconnect()
	if err := p.connect(ctx); err != nil {
		return err
	}
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	waiting := make(chan feed.Order, 1<<16)
	sent := make(chan error, 1)
	go func() { sent <- p.sendAll(sending, waiting) }()
	if err := c.Ready(); err != nil {
		return err
	}
	for {
		o, err := c.Next()
		if errors.Is(err, io.EOF) {
			close(waiting)
			time.AfterFunc(endBy, cancel)
			return <-sent
		}
		if err != nil {
			return err
		}
		if err := feed.InTx(ctx, db, func(tx *sql.Tx) error { return o.Place(ctx, tx) }); err != nil {
			return err
		}
		waiting <- o
	}
}

type producer struct {
	child *feed.Child
	conn  *amqp.Connection // nil if there is none
	ch    *amqp.Channel
}

func (p *producer) sendAll(ctx context.Context, orders <-chan feed.Order) error {
	for o := range orders {
		if err := p.send(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// send tries until the order is sent. The error is that of ctx.
func (p *producer) send(ctx context.Context, o feed.Order) error {
	for {
		err := p.connect(ctx)
		if err == nil {
			if err = p.publish(ctx, o); err == nil {
				return nil
			}
			slog.Warn("not sent, once more", "order", o.N, "err", err)
			p.disconnect()
			continue
		}
		slog.Warn("no broker", "err", err)
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

var errNotConfirmed = errors.New("not confirmed")

func (p *producer) publish(ctx context.Context, o feed.Order) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	confirmation, err := p.ch.PublishWithDeferredConfirmWithContext(ctx, "", p.child.Queue, false, false, amqp.Publishing{
		MessageId: strconv.Itoa(o.N), DeliveryMode: amqp.Persistent, ContentType: "application/json", Body: body})
	if err != nil || confirmation == nil { // it is nil without confirms
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, confirmBy)
	defer cancel()
	switch ok, err := confirmation.WaitContext(ctx); {
	case err != nil:
		return err
	case !ok:
		return errNotConfirmed
	}
	return nil
}

// connect connects, unless there is a connection.
func (p *producer) connect(ctx context.Context) (err error) {
	if p.conn != nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.conn, p.ch, err = open(p.child); err == nil && p.child.Confirms {
		err = p.ch.Confirm(false)
	}
	if err != nil {
		p.disconnect()
	}
	return err
}

func (p *producer) disconnect() {
	if p.conn != nil {
		_ = p.conn.Close()
	}
	p.conn, p.ch = nil, nil
}

// open connects and declares the queue.
func open(c *feed.Child) (*amqp.Connection, *amqp.Channel, error) {
	conn, err := amqp.Dial(c.Broker)
	if err != nil {
		return nil, nil, err
	}
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDeclare(c.Queue, true, false, false, false, amqp.Table{amqp.QueueTypeArg: c.Type})
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, ch, nil
}

// pause waits before the next attempt to connect. The error is that of ctx.
func pause(ctx context.Context) error {
	select {
	case <-time.After(again):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
