package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/interlock-go/interlock/examples/failover/internal/feed"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/replay/backup"
	"github.com/interlock-go/interlock/replay/httpreplay"
	"github.com/interlock-go/interlock/replay/outbox"
)

// produce is a producer. It commits an order with its event in the outbox,
// whose relay sends it.
func produce(ctx context.Context, c *feed.Child) error {
	db, err := c.OpenDB(ctx, "producer.db", feed.OrdersSchema)
	if err != nil {
		return err
	}
	defer db.Close()
	box, err := outbox.New(ctx, db, outbox.SQLite, outbox.Config{})
	if err != nil {
		return err
	}
	answering, err := answer(c, box)
	if err != nil {
		return err
	}
	defer answering()
	broker, publisher, err := channels(c)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), endBy)
		defer cancel()
		_ = broker.Shutdown(ctx)
	}()
	relay, err := outbox.NewRelay(box, publisher, outbox.RelayConfig{})
	if err != nil {
		return err
	}
	relaying, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = relay.Run(relaying) })
	defer running.Wait()
	defer stop()

	if err := until(ctx, func() bool { return broker.Ready() == nil }); err != nil {
		return err
	}
	if err := c.Ready(); err != nil {
		return err
	}
	if err := enqueueAll(ctx, c, db, box); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endBy)
	defer cancel()
	return until(ctx, func() bool {
		s, err := box.Stats(ctx)
		return err == nil && s.Unsent == 0
	})
}

// answer lets the consumer ask for events again.
func answer(c *feed.Child, box *outbox.Outbox) (stop func(), err error) {
	server, err := httpreplay.NewServer(httpreplay.ServerConfig{Source: box, Keys: []httpreplay.Key{{ID: keyID, Secret: c.Secret}}})
	if err != nil {
		return nil, err
	}
	l, err := c.Listener()
	if err != nil {
		return nil, err
	}
	return serve(l, replayPath, server), nil
}

// channels are the broker, and both ways together.
func channels(c *feed.Child) (*rabbitmq.Publisher, *backup.Publisher, error) {
	broker, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{
		Endpoint: endpoint(c),
		Route:    func(*ordering.Event) (exchange, key string, err error) { return "", c.Queue, nil },
	})
	if err != nil {
		return nil, nil, err
	}
	client, err := backup.NewClient(backup.ClientConfig{URL: c.Peer + eventsPath, Key: backup.Key{ID: keyID, Secret: c.Secret}})
	if err == nil {
		var publisher *backup.Publisher
		publisher, err = backup.NewPublisher(backup.PublisherConfig{Primary: broker, Backup: client, Alive: broker.Alive, Probe: probe})
		if err == nil {
			return broker, publisher, nil
		}
	}
	return nil, nil, errors.Join(err, broker.Close())
}

// enqueueAll commits orders until there are no more.
func enqueueAll(ctx context.Context, c *feed.Child, db *sql.DB, box *outbox.Outbox) error {
	for {
		o, err := c.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = feed.InTx(ctx, db, func(tx *sql.Tx) error {
			if err := o.Place(ctx, tx); err != nil {
				return err
			}
			return enqueue(ctx, tx, box, o)
		})
		if err != nil {
			return fmt.Errorf("order %d: %w", o.N, err)
		}
		box.Notify()
	}
}

func enqueue(ctx context.Context, tx *sql.Tx, box *outbox.Outbox, o feed.Order) error {
	e, err := eventOf(o)
	if err != nil {
		return err
	}
	_, err = box.Enqueue(ctx, tx, e, stream(o.Key))
	return err
}
