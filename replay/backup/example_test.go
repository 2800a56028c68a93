package backup_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/backup"
	"github.com/interlock-go/interlock/replay/outbox"
)

// The broker dies after two events, one of which it has taken without a
// confirmation. The consumer has each of them once, and in order.
func Example() {
	ctx := context.Background()
	key := backup.Key{ID: "2026-11", Secret: []byte("32 bytes that were drawn at random")}

	// The consumer: a sequencer, which takes the broker's events, and those
	// that come over HTTP.
	sequencer, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
		Store: ordering.NewMemory(), // or one of package sqlstore
		Handler: func(_ context.Context, job ordering.Job[*ordering.Event]) error {
			fmt.Printf("%s by number %d\n", job.Event.Payload, job.Event.Positions[0].Number)
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := backup.NewHandler(backup.HandlerConfig{Sink: sequencer, Keys: []backup.Key{key}})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/events", handler)
	server := httptest.NewTLSServer(mux)
	defer server.Close()

	// The producer: the broker's publisher, and a client of the consumer's. An
	// outbox.Relay would call Publish, and again when it fails.
	broker := outbox.PublisherFunc(func(ctx context.Context, e *ordering.Event) error {
		number := e.Positions[0].Number
		if number <= 2 {
			if err := sequencer.Offer(ctx, e, nil); err != nil {
				return err
			}
		}
		if number >= 2 {
			return errors.New("connection lost")
		}
		return nil
	})
	client, err := backup.NewClient(backup.ClientConfig{URL: server.URL + "/events", Key: key, HTTP: server.Client()})
	if err != nil {
		log.Fatal(err)
	}
	publisher, err := backup.NewPublisher(backup.PublisherConfig{Primary: broker, Backup: client, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	for i, step := range []string{"placed", "paid", "packed", "shipped"} {
		event := &ordering.Event{
			Positions: []ordering.Position{{Stream: lockkeys.Must("order", "42"), Number: uint64(i + 1)}},
			Payload:   []byte(step),
		}
		if err := publisher.Publish(ctx, event); err != nil {
			log.Fatal(err)
		}
	}
	stats := publisher.Stats()
	fmt.Printf("%d by the primary, %d by the backup; now %v\n", stats.Primary, stats.Backup, stats.Active)
	fmt.Println(sequencer.Drain(ctx), sequencer.Close())
	// Output:
	// placed by number 1
	// paid by number 2
	// packed by number 3
	// shipped by number 4
	// 1 by the primary, 3 by the backup; now backup
	// <nil> <nil>
}
