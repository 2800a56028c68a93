package main

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// Bounds of what a queue's owner has in hand.
const (
	prefetch   = 128
	endTimeout = 10 * time.Second // for handlers that run, when the owner leaves
)

// own takes part in a single-active queue until ctx ends, with a sequencer of
// begin's for each term in which the broker makes this process its owner.
func own[T any](ctx context.Context, begin func(ctx context.Context) (*ordering.Sequencer[T], error), cfg rabbitmq.ConsumerConfig) error {
	cfg.Receiver, cfg.Prefetch, cfg.Grace = rabbitmq.Owner(term(begin)), prefetch, endTimeout
	consumer, err := rabbitmq.NewConsumer(cfg)
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

// term makes terms of sequencers.
func term[T any](begin func(ctx context.Context) (*ordering.Sequencer[T], error)) func(ctx context.Context) (rabbitmq.Term, error) {
	return func(ctx context.Context) (rabbitmq.Term, error) {
		sequencer, err := begin(ctx)
		if err != nil {
			return nil, err
		}
		return rabbitmq.Events(sequencer), nil
	}
}
