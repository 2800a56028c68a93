package site

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/convoy/internal/ledger"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// PublishLedgers sends ledger messages, as their author would: numbered, so
// that each is walked once and none before an earlier one.
func (s Site) PublishLedgers(ctx context.Context, messages []ledger.Message) error {
	events := make([]*ordering.Event, len(messages))
	for i, l := range messages {
		payload, err := json.Marshal(l)
		if err != nil {
			return err
		}
		events[i] = &ordering.Event{
			Type: "ledger", Payload: payload,
			Positions: []ordering.Position{{Stream: ledger.Stream, Number: uint64(i + 1)}},
		}
	}
	toQueue := func(*ordering.Event) (exchange, key string, err error) { return "", s.LedgerQueue(), nil }
	return s.Publish(ctx, toQueue, events...)
}

// Publish publishes events, and waits until each is confirmed before the next.
// A broker may refuse messages for a moment, when it has just made the queue.
func (s Site) Publish(ctx context.Context, route func(*ordering.Event) (exchange, key string, err error), events ...*ordering.Event) (err error) {
	publisher, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{Endpoint: s.Endpoint(), Route: route})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, publisher.Shutdown(ctx))
	}()
	for _, e := range events {
		_, err := backoff.Retry(ctx, func() (struct{}, error) {
			err := publisher.Publish(ctx, e)
			if dispatcher.IsPermanent(err) {
				err = backoff.Permanent(err)
			}
			return struct{}{}, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
