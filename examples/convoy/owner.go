package main

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/dispatcher/rabbitmq"
	"github.com/interlock-go/interlock/ordering"
)

// Bounds of what a queue's owner has in hand.
const (
	prefetch   = 128
	endTimeout = 10 * time.Second // for handlers that run, when the owner leaves
)

// own takes part in a single-active queue until ctx ends: whenever the broker
// makes this process its owner, with a sequencer of begin's.
func own(ctx context.Context, begin func(ctx context.Context) (*ordering.Sequencer, error), cfg rabbitmq.ConsumerConfig) error {
	cfg.Receiver, cfg.Prefetch, cfg.Grace = rabbitmq.Owner(begin), prefetch, endTimeout
	consumer, err := rabbitmq.NewConsumer(cfg)
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}
