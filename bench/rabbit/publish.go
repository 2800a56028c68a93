package rabbit

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// window is how many messages of a channel are not confirmed, at most.
const window = 256

// MeasurePublish publishes n messages per round into a quorum queue, on one
// channel, each confirmed, with a window of 256.
func MeasurePublish(ctx context.Context, url string, rounds, n int) (Rows, error) {
	return race(ctx, &bench{url: url}, rounds, n, []contender{{Bare, publishBare}, {Interlock, publishInterlock}})
}

func publishBare(ctx context.Context, b *bench, n int, clock *clock) (err error) {
	queue, remove, err := b.queue()
	if err != nil {
		return err
	}
	defer remove()
	conn, err := amqp.Dial(b.url)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	list := events(n)
	clock.start()
	return sendBare(ctx, ch, queue, list)
}

// sendBare publishes events on a channel that confirms.
func sendBare(ctx context.Context, ch *amqp.Channel, queue string, list []*ordering.Event) error {
	var open [window]*amqp.DeferredConfirmation
	wait := func(c *amqp.DeferredConfirmation) error {
		if c == nil {
			return nil
		}
		if ok, err := c.WaitContext(ctx); err != nil || !ok {
			return errors.Join(err, errors.New("not confirmed"))
		}
		return nil
	}
	for i, e := range list {
		if err := wait(open[i%window]); err != nil {
			return err
		}
		var err error
		if open[i%window], err = ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, rabbitmq.Message(e)); err != nil {
			return err
		}
	}
	for _, c := range open {
		if err := wait(c); err != nil {
			return err
		}
	}
	return nil
}

func publishInterlock(ctx context.Context, b *bench, n int, clock *clock) (err error) {
	queue, remove, err := b.queue()
	if err != nil {
		return err
	}
	defer remove()
	p, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{Endpoint: b.endpoint(), Route: toQueue(queue), Channels: 1, Window: window})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Shutdown(ctx)) }()
	list := events(n + 1)
	if err := p.Publish(ctx, list[n]); err != nil { // it has connected then
		return err
	}
	clock.start()
	return sendInterlock(ctx, p, list[:n])
}

// sendInterlock publishes events and waits for all confirmations.
func sendInterlock(ctx context.Context, p *rabbitmq.Publisher, list []*ordering.Event) error {
	results := make(chan error, len(list))
	for _, e := range list {
		p.Go(ctx, e, func(err error) { results <- err })
	}
	var errs []error
	for range list {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}
