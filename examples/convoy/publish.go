package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/interlock-go/interlock/dispatcher/rabbitmq"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// publishLedgers sends ledger messages, as their author would: numbered, so
// that each is walked once and none before an earlier one.
func (o *options) publishLedgers(ctx context.Context, ledgers []ledger) error {
	events := make([]*ordering.Event, len(ledgers))
	for i, l := range ledgers {
		payload, err := json.Marshal(l)
		if err != nil {
			return err
		}
		events[i] = &ordering.Event{
			Type: "ledger", Payload: payload,
			Positions: []ordering.Position{{Stream: lockkeys.Must("ledger"), Number: uint64(i + 1)}},
		}
	}
	toQueue := func(*ordering.Event) (exchange, key string, err error) { return "", o.ledgerQueue(), nil }
	return o.publish(ctx, toQueue, events...)
}

// publish publishes events and waits until they are confirmed.
func (o *options) publish(ctx context.Context, route func(*ordering.Event) (exchange, key string, err error), events ...*ordering.Event) (err error) {
	publisher, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{Endpoint: o.endpoint(), Route: route})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, publisher.Close(ctx))
	}()
	for _, e := range events {
		if err := publisher.Publish(ctx, e); err != nil {
			return err
		}
	}
	return nil
}
