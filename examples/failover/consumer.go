package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/failover/internal/feed"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/backup"
	"github.com/interlock-go/interlock/replay/httpreplay"
)

const (
	prefetch   = 256
	gapTimeout = 20 * time.Millisecond // until the producer is asked for what is missing
)

// consume is a consumer: a sequencer, with the broker and an HTTP server as its
// sources, whose handler processes an event and then commits its effect
// together with its numbers.
func consume(ctx context.Context, c *feed.Child) error {
	store, err := sqlite.Open(ctx, filepath.Join(c.Dir, "consumer.db"))
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Migrate(ctx, "effects", []string{feed.EffectsSchema}); err != nil {
		return err
	}
	if err := feed.FillLog(ctx, store.DB()); err != nil {
		return err
	}
	replayer, err := askBack(c)
	if err != nil {
		return err
	}
	sequencer, err := ordering.New(ctx, ordering.Config[feed.Order]{
		Store: store, Decode: orderOf, Handler: handler(c, store), Dispatcher: dispatcher.Config[ordering.Job[feed.Order]]{Workers: c.Workers},
		Replayer: replayer, GapTimeout: gapTimeout,
	})
	if err != nil {
		return err
	}
	defer sequencer.Close()
	stop, err := receive(c, sequencer)
	if err != nil {
		return err
	}
	defer stop()
	return fromBroker(ctx, c, sequencer)
}

// fromBroker takes events from the broker until the end.
func fromBroker(ctx context.Context, c *feed.Child, sequencer *ordering.Sequencer[feed.Order]) error {
	consumer, err := rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{
		Endpoint: endpoint(c), Queue: c.Queue, Receiver: rabbitmq.Events(sequencer), Prefetch: prefetch,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	if err := until(ctx, func() bool { return consumer.Ready() == nil || len(ended) > 0 }); err != nil {
		return err
	}
	if len(ended) > 0 {
		return <-ended
	}
	if err := c.Ready(); err != nil {
		return err
	}
	go func() {
		_, _ = c.Next() // the end
		cancel()
		_ = sequencer.Shutdown(context.Background())
	}()
	return <-ended
}

// handler processes an event, which takes a while, and commits its effect.
func handler(c *feed.Child, store *sqlstore.Store) ordering.Handler[feed.Order] {
	return func(ctx context.Context, job ordering.Job[feed.Order]) error {
		o := job.Value
		time.Sleep(o.Work)
		if err := store.Do(ctx, job, o.Apply); err != nil {
			return err
		}
		return c.Report(feed.Applied{Order: o, Channel: channelOf(job.Event), At: time.Now()})
	}
}

// receive takes what the producer posts while the broker is down.
func receive(c *feed.Child, sequencer *ordering.Sequencer[feed.Order]) (stop func(), err error) {
	h, err := backup.NewHandler(backup.HandlerConfig{Sink: posted{sequencer}, Keys: []backup.Key{{ID: keyID, Secret: c.Secret}}})
	if err != nil {
		return nil, err
	}
	l, err := c.Listener()
	if err != nil {
		return nil, err
	}
	return serve(l, eventsPath, h), nil
}

// askBack asks the producer for what is missing.
func askBack(c *feed.Child) (*replay.Replayer, error) {
	client, err := httpreplay.NewClient(httpreplay.ClientConfig{URL: c.Peer + replayPath, Key: httpreplay.Key{ID: keyID, Secret: c.Secret}})
	if err != nil {
		return nil, err
	}
	source := replay.SourceFunc(func(ctx context.Context, asked ordering.Range) (replay.Answer, error) {
		answer, err := client.Fetch(ctx, asked)
		for _, e := range answer.Events {
			mark(e, feed.Replay)
		}
		return answer, err
	})
	return replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "producer", Source: source}}})
}

// channelHeader says by which channel an event came, for the figures. Those of
// the broker have none.
const channelHeader = "x-channel"

func mark(e *ordering.Event, c feed.Channel) {
	if e.Headers == nil {
		e.Headers = map[string]string{}
	}
	e.Headers[channelHeader] = string(c)
}

func channelOf(e *ordering.Event) feed.Channel {
	if c := e.Headers[channelHeader]; c != "" {
		return feed.Channel(c)
	}
	return feed.Broker
}

// posted marks events as posted.
type posted struct {
	sequencer *ordering.Sequencer[feed.Order]
}

func (p posted) Offer(ctx context.Context, e *ordering.Event, done ordering.Done) error {
	mark(e, feed.HTTP)
	return p.sequencer.Offer(ctx, e, done)
}
