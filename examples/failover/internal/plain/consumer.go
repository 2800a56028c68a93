package plain

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/examples/failover/internal/feed"
)

const prefetch = 256

// Consume is a consumer. It processes an event, commits the effect and
// acknowledges the message.
func Consume(ctx context.Context, c *feed.Child) error {
	db, err := c.OpenDB(ctx, "consumer.db", feed.EffectsSchema)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = c.Next() // the end
		cancel()
	}()
	k := &consumer{child: c, db: db}
	for ctx.Err() == nil {
		if err := k.session(ctx); err != nil {
			slog.Warn("no broker", "err", err)
			_ = pause(ctx)
		}
	}
	return nil
}

type consumer struct {
	child *feed.Child
	db    *sql.DB
	ready sync.Once

	mu sync.Mutex // held from an effect to its report, so that those are in order
}

// session consumes until the connection is lost.
func (k *consumer) session(ctx context.Context) error {
	conn, ch, err := open(k.child)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(k.child.Queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	k.ready.Do(func() { _ = k.child.Ready() })
	var workers sync.WaitGroup
	for range k.child.Workers {
		workers.Go(func() {
			for d := range deliveries {
				if err := k.handle(d); err != nil {
					slog.Warn("not done", "message", d.MessageId, "err", err)
				}
			}
		})
	}
	workers.Wait()
	return nil
}

func (k *consumer) handle(d amqp.Delivery) error {
	var o feed.Order
	if err := json.Unmarshal(d.Body, &o); err != nil {
		return err
	}
	time.Sleep(o.Work)
	if err := k.apply(o); err != nil {
		return err
	}
	return d.Ack(false)
}

func (k *consumer) apply(o feed.Order) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	// What was processed is committed, whatever has happened to the connection.
	ctx := context.Background()
	if err := feed.InTx(ctx, k.db, func(tx *sql.Tx) error { return o.Apply(ctx, tx) }); err != nil {
		return err
	}
	return k.child.Report(feed.Applied{Order: o, Channel: feed.Broker, At: time.Now()})
}
