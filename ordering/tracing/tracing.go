package tracing

import (
	"context"
	"maps"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/interlock-go/interlock/dispatcher/telemetry"
	"github.com/interlock-go/interlock/ordering"
)

// Producer makes spans for events that are published. It is safe for concurrent use.
type Producer struct {
	tracer trace.Tracer
	name   string
}

// NewProducer returns a producer whose spans are named after a destination, such as an
// exchange. The provider must not be nil.
func NewProducer(provider trace.TracerProvider, name string) *Producer {
	return &Producer{provider.Tracer(telemetry.Scope, trace.WithSchemaURL(semconv.SchemaURL)), name}
}

// Publish calls publish, in a span, with a copy of the event whose headers name that span.
// The event itself is not changed. The error is that of publish.
//
// An event that has a valid traceparent already keeps it, since a repeat must be the same
// event: then the span is linked to that of its creation.
func (p *Producer) Publish(ctx context.Context, e *ordering.Event, publish func(ctx context.Context, e *ordering.Event) error) error {
	creation := creationOf(e)
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(semconv.MessagingSystemKey.String("interlock"), semconv.MessagingOperationName("publish"),
			semconv.MessagingOperationTypeSend, semconv.MessagingDestinationName(p.name)),
	}
	if creation.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: creation}))
	}
	ctx, span := p.tracer.Start(ctx, "publish "+p.name, options...)
	defer span.End()
	if !creation.IsValid() {
		e = with(ctx, e)
	}
	if len(e.Positions) > 0 || e.ID != "" { // an outbox gives it its numbers, and its name by them
		span.SetAttributes(semconv.MessagingMessageID(e.Name()))
	}
	err := publish(ctx, e)
	if err != nil {
		span.SetAttributes(semconv.ErrorTypeKey.String("_OTHER"))
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}

// Handler returns a handler that calls next in a span for each attempt, linked to the span
// of the event's producer, or its child; see [telemetry.Spans], whose Observer ends it.
func Handler[T any](s *telemetry.Spans, next ordering.Handler[T]) ordering.Handler[T] {
	return func(ctx context.Context, job ordering.Job[T]) error {
		ctx, returned := s.Begin(ctx, creationOf(job.Event), attributesOf(job.Event)...)
		defer returned()
		return next(ctx, job)
	}
}

// attributesOf returns the attributes of an event that is handled.
func attributesOf(e *ordering.Event) []attribute.KeyValue {
	list := []attribute.KeyValue{semconv.MessagingMessageID(e.Name())}
	if e.CorrelationID != "" {
		list = append(list, semconv.MessagingMessageConversationID(e.CorrelationID))
	}
	return list
}

// headers reads and writes traceparent and tracestate.
var headers propagation.TraceContext

// creationOf returns the span that the event's headers name; it is not valid if they name
// none.
func creationOf(e *ordering.Event) trace.SpanContext {
	return trace.SpanContextFromContext(headers.Extract(context.Background(), propagation.MapCarrier(e.Headers)))
}

// with returns a copy of e whose headers name the span of ctx.
func with(ctx context.Context, e *ordering.Event) *ordering.Event {
	copied := *e
	copied.Headers = maps.Clone(e.Headers)
	if copied.Headers == nil {
		copied.Headers = map[string]string{}
	}
	headers.Inject(ctx, propagation.MapCarrier(copied.Headers))
	return &copied
}
