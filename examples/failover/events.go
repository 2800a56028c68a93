package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/failover/internal/feed"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

const (
	eventsPath = "/events" // of the consumer: takes events while the broker is down
	replayPath = "/replay" // of the producer: answers what it has sent
	keyID      = "experiment"

	minBackoff = 20 * time.Millisecond // between attempts to connect to the broker
	maxBackoff = 100 * time.Millisecond
	probe      = 200 * time.Millisecond // until a broker that does not confirm is tried again
	endBy      = 10 * time.Second       // what is left at the end
	look       = 5 * time.Millisecond
)

// endpoint is how both sides reach the broker.
func endpoint(c *feed.Child) rabbitmq.Endpoint {
	return rabbitmq.Endpoint{
		URL:      c.Broker,
		Topology: rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: c.Queue, Type: rabbitmq.QueueType(c.Type)}}},
		Backoff:  dispatcher.Backoff{Initial: minBackoff, Max: maxBackoff},
	}
}

// stream is the stream of a key's events.
func stream(key int) lockkeys.Key { return lockkeys.Must("order", strconv.Itoa(key)) }

// eventOf is the event of an order, which the outbox numbers.
func eventOf(o feed.Order) (*ordering.Event, error) {
	payload, err := json.Marshal(o)
	return &ordering.Event{ID: strconv.Itoa(o.N), Type: "OrderPlaced", Time: o.Due, Payload: payload}, err
}

func orderOf(e *ordering.Event) (o feed.Order, err error) {
	err = json.Unmarshal(e.Payload, &o)
	return o, err
}

// serve serves until the function returned is called.
func serve(l net.Listener, path string, h http.Handler) (stop func()) {
	mux := http.NewServeMux()
	mux.Handle(path, h)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), endBy)
		defer cancel()
		_ = server.Shutdown(ctx)
		<-done
	}
}

// until waits for a condition. The error is that of ctx.
func until(ctx context.Context, condition func() bool) error {
	for !condition() {
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
