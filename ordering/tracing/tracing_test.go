package tracing_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/telemetry"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/ordering/tracing"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/backup"
	"github.com/interlock-go/interlock/replay/httpreplay"
	"github.com/interlock-go/interlock/replay/outbox"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

const waitAtMost, tick = time.Minute, 5 * time.Millisecond

type (
	config = ordering.Config[*ordering.Event]
	job    = ordering.Job[*ordering.Event]
)

var order = lockkeys.Must("order", "7")

// rig is a producer and a consumer, with the spans of both.
type rig struct {
	spans    *tracetest.InMemoryExporter
	provider *sdk.TracerProvider
	producer *tracing.Producer
	consumer *ordering.Sequencer[*ordering.Event]
}

func newRig(t *testing.T, spans telemetry.SpansConfig, cfg config) *rig {
	r := &rig{spans: tracetest.NewInMemoryExporter()}
	r.provider = sdk.NewTracerProvider(sdk.WithSyncer(r.spans))
	t.Cleanup(func() { assert.NoError(t, r.provider.Shutdown(context.Background())) })
	r.producer = tracing.NewProducer(r.provider, "orders")
	spans.Provider, spans.Name = r.provider, "orders"
	s, err := telemetry.NewSpans(spans)
	require.NoError(t, err)
	if cfg.Handler == nil {
		cfg.Handler = func(context.Context, job) error { return nil }
	}
	cfg.Store, cfg.Handler, cfg.Dispatcher.Observer = ordering.NewMemory(), tracing.Handler(s, cfg.Handler), telemetry.Observer[job](s)
	r.consumer, err = ordering.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.consumer.Close()) })
	return r
}

// named waits for a number of spans with a name and returns them.
func (r *rig) named(t *testing.T, name string, n int) (list []tracetest.SpanStub) {
	require.Eventually(t, func() bool {
		list = nil
		for _, s := range r.spans.GetSpans() {
			if s.Name == name {
				list = append(list, s)
			}
		}
		return len(list) >= n
	}, waitAtMost, tick, "%d spans %q", n, name)
	require.Len(t, list, n)
	return list
}

// linked checks that each of n published events was handled once, in a trace of its own
// with a link to its producer's span.
func (r *rig) linked(t *testing.T, n int) {
	made := map[trace.SpanID]trace.TraceID{}
	for _, s := range r.named(t, "publish orders", n) {
		assert.Equal(t, trace.SpanKindProducer, s.SpanKind)
		made[s.SpanContext.SpanID()] = s.SpanContext.TraceID()
	}
	for _, s := range r.named(t, "process orders", n) {
		assert.Equal(t, trace.SpanKindConsumer, s.SpanKind)
		assert.False(t, s.Parent.IsValid())
		require.Len(t, s.Links, 1)
		to := s.Links[0].SpanContext
		assert.Equal(t, made[to.SpanID()], to.TraceID())
		assert.True(t, to.IsRemote())
		delete(made, to.SpanID())
	}
	assert.Empty(t, made, "published and not handled")
}

func event(n uint64) *ordering.Event {
	return &ordering.Event{Positions: []ordering.Position{{Stream: order, Number: n}}, Headers: map[string]string{"tenant": "a"}}
}

// box returns an outbox in a file.
func box(t *testing.T) (*outbox.Outbox, *sql.DB) {
	file := url.URL{Scheme: "file", Path: filepath.Join(t.TempDir(), "outbox.db"), RawQuery: url.Values{
		"_pragma": {"busy_timeout(20000)", "journal_mode(WAL)"}, "_txlock": {"immediate"}}.Encode()}
	db, err := sql.Open("sqlite", file.String())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	b, err := outbox.New(t.Context(), db, outbox.SQLite, outbox.Config{})
	require.NoError(t, err)
	return b, db
}

// enqueue commits events in spans.
func (r *rig) enqueue(t *testing.T, b *outbox.Outbox, db *sql.DB, n int) {
	for range n {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, r.producer.Publish(t.Context(), &ordering.Event{}, func(ctx context.Context, e *ordering.Event) error {
			_, err := b.Enqueue(ctx, tx, e, order)
			return err
		}))
		require.NoError(t, tx.Commit())
	}
	b.Notify()
}

// background runs f until the test ends.
func background(t *testing.T, f func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	t.Cleanup(func() { cancel(); assert.NoError(t, <-ended) })
}

// TestOutboxAndBroker: from the transaction through an outbox on SQLite, its relay and
// RabbitMQ.
func TestOutboxAndBroker(t *testing.T) {
	node, queue := rabbittest.Start(t), rabbittest.Name(t)
	endpoint := rabbitmq.Endpoint{URL: node.URL(), Topology: rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: queue, SingleActive: true}}}}
	r := newRig(t, telemetry.SpansConfig{}, config{})
	b, db := box(t)
	r.enqueue(t, b, db, 3)

	publisher, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{Endpoint: endpoint,
		Route: func(*ordering.Event) (exchange, key string, err error) { return "", queue, nil }})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, publisher.Close()) })
	relay, err := outbox.NewRelay(b, publisher, outbox.RelayConfig{Poll: 20 * time.Millisecond})
	require.NoError(t, err)
	background(t, relay.Run)
	consumer, err := rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{Endpoint: endpoint, Queue: queue, Receiver: rabbitmq.Events(r.consumer)})
	require.NoError(t, err)
	background(t, consumer.Run)
	r.linked(t, 3)
}

// TestBackup: over HTTP, in place of the broker.
func TestBackup(t *testing.T) {
	r := newRig(t, telemetry.SpansConfig{}, config{})
	key := backup.Key{ID: "1", Secret: []byte("32 bytes that were drawn at random")}
	handler, err := backup.NewHandler(backup.HandlerConfig{Sink: r.consumer, Keys: []backup.Key{key}})
	require.NoError(t, err)
	client, err := backup.NewClient(backup.ClientConfig{URL: serve(t, handler) + "/events", Key: key, HTTP: web(t)})
	require.NoError(t, err)
	for n := range 3 {
		require.NoError(t, r.producer.Publish(t.Context(), event(uint64(n+1)), client.Publish))
	}
	r.linked(t, 3)
}

// TestReplay: an event comes, and the two before it from the producer's outbox over HTTP.
func TestReplay(t *testing.T) {
	b, db := box(t)
	key := httpreplay.Key{ID: "1", Secret: []byte("32 bytes that were drawn at random")}
	handler, err := httpreplay.NewServer(httpreplay.ServerConfig{Source: b, Keys: []httpreplay.Key{key}})
	require.NoError(t, err)
	client, err := httpreplay.NewClient(httpreplay.ClientConfig{URL: serve(t, handler) + "/replay", Key: key, HTTP: web(t)})
	require.NoError(t, err)
	replayer, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "orders", Source: client}}})
	require.NoError(t, err)
	r := newRig(t, telemetry.SpansConfig{}, config{GapTimeout: time.Millisecond, Replayer: replayer})
	r.enqueue(t, b, db, 2)
	require.NoError(t, r.producer.Publish(t.Context(), event(3), func(ctx context.Context, e *ordering.Event) error {
		return r.consumer.Offer(ctx, e, nil)
	}))
	r.linked(t, 3)
}

func serve(t *testing.T, handler http.Handler) string {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func web(t *testing.T) *http.Client {
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// offer gives an event to the consumer in a span, without waiting for its outcome.
func (r *rig) offer(t *testing.T, e *ordering.Event) {
	require.NoError(t, r.producer.Publish(t.Context(), e, func(ctx context.Context, e *ordering.Event) error {
		return r.consumer.Offer(ctx, e, nil)
	}))
}

// TestAttempts: each attempt has a span, which says what became of it; one that waited says
// behind what; and with Parent all are in the producer's trace.
func TestAttempts(t *testing.T) {
	failed := errors.New("no money")
	running, open := make(chan struct{}), make(chan struct{})
	r := newRig(t, telemetry.SpansConfig{Parent: true}, config{
		Handler: func(ctx context.Context, j job) error {
			if j.Event.Positions[0].Number == 1 {
				close(running)
				<-open
				return nil
			}
			return failed
		},
		Dispatcher: dispatcher.Config[job]{MaxAttempts: 2, Backoff: dispatcher.Backoff{Initial: time.Millisecond}},
	})
	r.offer(t, event(1))
	<-running
	r.offer(t, event(2))
	require.Eventually(t, func() bool { return r.consumer.Stats().Dispatcher.Waiting == 1 }, waitAtMost, tick)
	close(open)
	spans := r.named(t, "process orders", 3)
	made := r.named(t, "publish orders", 2)
	assert.Equal(t, made[0].SpanContext.SpanID(), spans[0].Parent.SpanID())
	for _, s := range spans[1:] {
		assert.Equal(t, made[1].SpanContext.TraceID(), s.SpanContext.TraceID())
		assert.Equal(t, made[1].SpanContext.SpanID(), s.Parent.SpanID())
		assert.Equal(t, codes.Error, s.Status.Code)
	}
	assert.Equal(t, []string{"returned"}, events(spans[0]))
	assert.Equal(t, codes.Unset, spans[0].Status.Code)
	assert.ElementsMatch(t, []string{"blocked", "returned", "retried"}, events(spans[1]))
	assert.ElementsMatch(t, []string{"returned", "finished"}, events(spans[2]))
	for _, e := range spans[1].Events {
		if e.Name == "blocked" {
			assert.Equal(t, "interlock.key", string(e.Attributes[0].Key))
			assert.Equal(t, order.String(), e.Attributes[0].Value.AsString())
			assert.EqualValues(t, 1, e.Attributes[1].Value.AsInt64())
		}
	}
	assert.Contains(t, spans[2].Status.Description, "no money")
}

func events(s tracetest.SpanStub) (names []string) {
	for _, e := range s.Events {
		names = append(names, e.Name)
	}
	return names
}

// TestPublish: an event is not changed, keeps a traceparent that it has, and an error is in
// the span.
func TestPublish(t *testing.T) {
	r := newRig(t, telemetry.SpansConfig{}, config{})
	e := event(1)
	var once, twice string
	keep := func(into *string) func(context.Context, *ordering.Event) error {
		return func(_ context.Context, e *ordering.Event) error {
			*into = e.Headers["traceparent"]
			assert.Equal(t, "a", e.Headers["tenant"])
			return errors.New("away")
		}
	}
	require.Error(t, r.producer.Publish(t.Context(), e, func(ctx context.Context, sent *ordering.Event) error {
		require.NotSame(t, e, sent)
		return errors.Join(keep(&once)(ctx, sent), r.producer.Publish(ctx, sent, keep(&twice)))
	}))
	assert.Equal(t, map[string]string{"tenant": "a"}, e.Headers)
	assert.NotEmpty(t, once)
	assert.Equal(t, once, twice)
	spans := r.named(t, "publish orders", 2)
	for _, s := range spans {
		assert.Equal(t, codes.Error, s.Status.Code)
	}
	require.Len(t, spans[0].Links, 1, "the second call, which ends first")
	assert.Equal(t, spans[1].SpanContext.SpanID(), spans[0].Links[0].SpanContext.SpanID())
}
