package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// takeTurns takes messages from a queue that several programs consume, one at a
// time, until ctx ends: term after term, with a summary of each. Until the
// broker gives it a message, and from the end of a term to the next one, the
// program stands by and leaves the database to another one.
func (o *options) takeTurns(ctx context.Context, stdout, stderr io.Writer) (good bool, err error) {
	good = true
	var failed error
	begin := func(began context.Context) (rabbitmq.Term, error) {
		t, err := o.begin(began, stderr, o.queueInput(), nil)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(stderr, "%s %s\n", atWork, o.queue)
		return turn{t.service.Receiver(), func(end context.Context) {
			well, err := t.conclude(end, stdout, t.handOver(end))
			good, failed = good && well, errors.Join(failed, err, t.close())
			if ctx.Err() == nil {
				fmt.Fprintf(stderr, "the term is over: %v\n", context.Cause(began))
			}
		}}, nil
	}
	consumer, err := o.newConsumer(rabbitmq.Owner(begin), patience, stderr)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(stderr, "waiting for messages from the queue %s\n", o.queue)
	err = consumer.Run(ctx) // returns when the last term has ended
	return good, errors.Join(err, failed)
}

// turn is a term as the queue's owner.
type turn struct {
	rabbitmq.Receiver
	end func(ctx context.Context)
}

// Shutdown implements [rabbitmq.Term]. What went wrong is in the summary.
func (t turn) Shutdown(ctx context.Context) error {
	t.end(ctx)
	return nil
}
