// Package tracing joins the spans of whoever makes an event with those of whoever handles
// it, through the event's header traceparent, by the recommendation of the W3C. So the
// events keep it over a broker, in an outbox, over HTTP and in a replay.
//
// The producer begins a span for each event that it makes:
//
//	producer := tracing.NewProducer(provider, "orders")
//	err := producer.Publish(ctx, event, publisher.Publish)
//
// and, with an outbox, where the event is enqueued; its relay then publishes what has the
// header already:
//
//	err := producer.Publish(ctx, event, func(ctx context.Context, e *ordering.Event) error {
//		_, err := box.Enqueue(ctx, tx, e, order)
//		return err
//	})
//
// The consumer begins one for each attempt:
//
//	spans, err := telemetry.NewSpans(telemetry.SpansConfig{Provider: provider, Name: "orders"})
//	cfg.Handler = tracing.Handler(spans, handle)
//	cfg.Dispatcher.Observer = telemetry.Observer[ordering.Job[*ordering.Event]](spans)
//
// It ends after the commit. See package telemetry for what it contains.
package tracing
