package httpreplay_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/httpreplay"
)

// A producer answers from its log, and a consumer asks it for what did not
// come.
func Example() {
	key := httpreplay.Key{ID: "2026-11", Secret: []byte("32 bytes that were drawn at random")}

	// The producer. Its log would be a table, or package outbox.
	log := replay.SourceFunc(func(_ context.Context, asked ordering.Range) (a replay.Answer, err error) {
		for n := asked.From; n <= min(asked.To, asked.From+99); n++ { // 100 at a time
			a.Events = append(a.Events, &ordering.Event{Positions: []ordering.Position{{Stream: asked.Stream, Number: n}}})
		}
		return a, nil
	})
	handler, err := httpreplay.NewServer(httpreplay.ServerConfig{Source: log, Keys: []httpreplay.Key{key}})
	if err != nil {
		panic(err)
	}
	server := httptest.NewTLSServer(handler)
	defer server.Close()

	// The consumer.
	client, err := httpreplay.NewClient(httpreplay.ClientConfig{URL: server.URL + "/replay", Key: key, HTTP: server.Client()})
	if err != nil {
		panic(err)
	}
	replayer, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "orders", Source: client}}})
	if err != nil {
		panic(err)
	}
	missing := ordering.Range{Stream: lockkeys.Must("order", "7"), From: 5, To: 6}
	answer, err := replayer.Replay(context.Background(), missing, func(_ context.Context, events []*ordering.Event) error {
		for _, e := range events {
			fmt.Println(e.Name())
		}
		return nil
	})
	fmt.Println(answer.Attempts, "request,", err)
	// Output:
	// order/7=5
	// order/7=6
	// 1 request, <nil>
}
