package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	humanize "github.com/dustin/go-humanize"

	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/producer"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/replay/outbox"
)

// send sends the messages of an input to the queue, until the broker has
// confirmed them all. It is good if every part of the input is a message.
func (o *options) send(ctx context.Context, stdout, stderr io.Writer) (good bool, err error) {
	in, err := o.openInput(nil, stderr)
	if err != nil {
		return false, err
	}
	defer in.close()
	p, err := producer.Open(ctx, o.db)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	in.source = in.follow(ctx, p, nil, 0)
	rejects, err := newRejects(o, stderr)
	if err != nil {
		return false, err
	}
	sent, malformed, err := o.sendAll(ctx, in, p, rejects)
	in.progress.finish()
	kept, rejected := rejects.finish()
	if kept != "" {
		fmt.Fprintf(stdout, "rejects: %s\n", kept)
	}
	if err := errors.Join(err, rejected); err != nil {
		return false, err
	}
	tellShort(stderr, in)
	count := func(n int) string { return humanize.Comma(int64(n)) }
	_, err = fmt.Fprintf(stdout, "%s: %s messages are in the queue %s: %s kept from before, %s added, %s malformed\n",
		in.identity.name, count(sent), o.queue, count(min(p.Kept(), sent)), count(max(sent-p.Kept(), 0)), count(malformed))
	if sent+malformed == 0 && o.in != "" {
		return false, errors.Join(err, errors.New("the input is empty: if it should not be, it was cut, or not written yet"))
	}
	return malformed == 0, err
}

// sendAll adds the messages of an input to the outbox while its relay sends
// them.
func (o *options) sendAll(ctx context.Context, in *input, p *producer.Producer, rejects *rejects) (sent, malformed int, err error) {
	endpoint := o.endpoint(rejects.stderr)
	publisher, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{
		Endpoint: endpoint,
		Route:    func(*ordering.Event) (exchange, key string, err error) { return "", o.queue, nil },
	})
	if err != nil {
		return 0, 0, err
	}
	sending, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	publish := func(ctx context.Context, e *ordering.Event) error {
		err := publisher.Publish(ctx, e)
		if refused, ok := errors.AsType[*rabbitmq.TopologyError](err); ok { // the publisher has ended
			stop(refused)
		}
		return err
	}
	var relay sync.WaitGroup
	var relayed error // when it has ended
	relay.Go(func() { relayed = p.Relay(sending, outbox.PublisherFunc(publish), endpoint.Logger) })

	sent, malformed, err = addAll(sending, in, p, rejects)
	if err == nil {
		err = p.Settle(sending)
	}
	switch refused := context.Cause(sending); {
	case ctx.Err() != nil:
		err = errors.New("interrupted: the rest is sent when it is started again on the same input and database")
	case refused != nil:
		err = fmt.Errorf("%w: name another queue with -queue", refused)
	}
	stop(nil)
	relay.Wait()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return sent, malformed, errors.Join(err, relayed, publisher.Shutdown(closing))
}

// addAll adds the messages of an input to the outbox and sets aside what is
// none.
func addAll(ctx context.Context, in *input, p *producer.Producer, rejects *rejects) (added, malformed int, err error) {
	for {
		item, err := in.source.Next()
		if err == io.EOF {
			return added, malformed, nil
		}
		if err == nil {
			if err = p.Add(ctx, item.Message); errors.Is(err, producer.ErrNumbered) {
				err = &feed.Malformed{Line: item.Line, Err: err}
			}
		}
		if bad, ok := errors.AsType[*feed.Malformed](err); ok {
			malformed++
			rejects.malformed(bad)
			continue
		}
		switch {
		case err != nil && item.Message == nil:
			return added, malformed, fmt.Errorf("%s: %w", in.identity.name, err)
		case err != nil:
			return added, malformed, fmt.Errorf("%s: line %d: %w", in.identity.name, item.Line, err)
		}
		added++
		in.progress.ended()
	}
}
