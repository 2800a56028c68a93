package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/bench/internal/stat"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// Shape is what many publishers got who each wait for the confirmation of a
// message before they publish the next, into one quorum queue with one consumer.
type Shape struct {
	Publishers int
	Contender  string
	PerSecond  float64       // messages
	Confirm    time.Duration // from publishing to the confirmation, in the median
	// Published is what a master's thesis measured with as many publishers, on
	// another machine.
	Published        float64
	PublishedLatency time.Duration
}

// shapeChannels are shared by the publishers, which was measured to be better
// than one for each.
const shapeChannels = 8

// MeasureShapes lets 100 and 500 publishers send n messages together.
func MeasureShapes(ctx context.Context, url string, n int) (list []Shape, err error) {
	b := &bench{url: url}
	for _, published := range []Shape{
		{Publishers: 100, Published: 3200, PublishedLatency: 12 * time.Millisecond},
		{Publishers: 500, Published: 8200, PublishedLatency: 35 * time.Millisecond},
	} {
		for name, open := range map[string]func(b *bench, queue string) (send, func() error, error){
			Bare: openBare, Interlock: openInterlock,
		} {
			s := published
			s.Contender = name
			if err := s.measure(ctx, b, n, open); err != nil {
				return nil, fmt.Errorf("%s, %d publishers: %w", name, s.Publishers, err)
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// send publishes an event and returns when it is confirmed.
type send func(ctx context.Context, e *ordering.Event) error

func (s *Shape) measure(ctx context.Context, b *bench, n int, open func(b *bench, queue string) (send, func() error, error)) (err error) {
	queue, remove, err := b.queue()
	if err != nil {
		return err
	}
	defer remove()
	consumer, err := b.drain(queue)
	if err != nil {
		return err
	}
	defer consumer()
	publish, end, err := open(b, queue)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	list := events(n)
	if err := publish(ctx, list[0]); err != nil { // it has connected then
		return err
	}
	each := n / s.Publishers
	latencies := make([]float64, s.Publishers*each)
	errs := make([]error, s.Publishers)
	var wait sync.WaitGroup
	began := time.Now()
	for p := range s.Publishers {
		wait.Go(func() {
			for i := p * each; i < (p+1)*each && errs[p] == nil; i++ {
				at := time.Now()
				errs[p] = publish(ctx, list[i])
				latencies[i] = float64(time.Since(at))
			}
		})
	}
	wait.Wait()
	s.PerSecond = float64(len(latencies)) / time.Since(began).Seconds()
	s.Confirm = time.Duration(stat.Median(latencies))
	return errors.Join(errs...)
}

// drain consumes a queue until what it returns is called.
func (b *bench) drain(queue string) (end func(), err error) {
	conn, err := amqp.Dial(b.url)
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Qos(1000, 0, false)
	}
	var messages <-chan amqp.Delivery
	if err == nil {
		messages, err = ch.Consume(queue, "", false, false, false, false, nil)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		n := 0
		for m := range messages {
			if n++; n%100 == 0 {
				_ = m.Ack(true)
			}
		}
	})
	return func() {
		_ = conn.Close()
		reading.Wait()
	}, nil
}

func openBare(b *bench, queue string) (send, func() error, error) {
	conn, err := amqp.Dial(b.url)
	if err != nil {
		return nil, nil, err
	}
	free := make(chan *amqp.Channel, shapeChannels)
	for range shapeChannels {
		ch, err := conn.Channel()
		if err == nil {
			err = ch.Confirm(false)
		}
		if err != nil {
			return nil, nil, errors.Join(err, conn.Close())
		}
		free <- ch
	}
	return func(ctx context.Context, e *ordering.Event) error {
		ch := <-free
		confirmation, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, rabbitmq.Message(e))
		free <- ch
		if err != nil {
			return err
		}
		if ok, err := confirmation.WaitContext(ctx); err != nil || !ok {
			return errors.Join(err, errors.New("not confirmed"))
		}
		return nil
	}, conn.Close, nil
}

func openInterlock(b *bench, queue string) (send, func() error, error) {
	p, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{Endpoint: b.endpoint(), Route: toQueue(queue), Channels: shapeChannels})
	if err != nil {
		return nil, nil, err
	}
	return p.Publish, p.Close, nil
}
