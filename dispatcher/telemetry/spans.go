package telemetry

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/settings"
)

// SpansConfig configures [Spans].
type SpansConfig struct {
	// Provider makes the spans. Required.
	Provider trace.TracerProvider
	// Name is that of the queue, in the spans' names and as
	// messaging.destination.name. Required.
	Name string
	// Parent makes the span of the producer the parent of those of the attempts, so that
	// all is one trace. Otherwise, as the conventions have it, they are traces of their own
	// with a link to it: a message may be handled long after, and more than once.
	Parent bool
}

// Spans makes a span for each attempt of the messages of one dispatcher:
//
//	spans, err := telemetry.NewSpans(telemetry.SpansConfig{Provider: provider, Name: "payments"})
//	d, err := dispatcher.New(dispatcher.Config[*Payment]{
//		…, Handler: telemetry.Handler(spans, handle), Observer: telemetry.Observer[*Payment](spans),
//	})
//
// A span begins with the handler, and ends with the attempt: that is when the result was
// told, after a commit for example, or when a held message was finished. Its events are the
// waits for other messages, when the handler returned, and what became of the attempt: that
// it was parked, or will be tried again, with the error.
//
// An observer costs more than most messages without an effect, and a span more again, also
// one that is not sampled. So this is for handlers that do work.
type Spans struct {
	tracer trace.Tracer
	name   string
	parent bool

	mu   sync.Mutex
	open map[uint64]*attempts // by the message's ID
}

// attempts is what is known of a message from when it has waited, or its handler has begun.
// Events come late: the next attempt may have begun when the end of one is observed. That
// is an event about the first attempt that had begun by then.
type attempts struct {
	waits []wait    // that were observed, of the first attempt
	begun []attempt // in order; none before the handler has begun
}

type attempt struct {
	span trace.Span
	at   time.Time
}

// wait is the beginning of a wait.
type wait struct {
	attributes []attribute.KeyValue
	at         trace.EventOption
}

// NewSpans returns the spans of one dispatcher. The error wraps [ErrConfig].
func NewSpans(cfg SpansConfig) (*Spans, error) {
	var p settings.Problems
	p.Add(cfg.Provider == nil, "Provider is nil: set the one that makes the spans")
	p.Add(cfg.Name == "", "Name is empty: set the queue's")
	if err := p.Err(ErrConfig); err != nil {
		return nil, err
	}
	return &Spans{
		tracer: cfg.Provider.Tracer(Scope, trace.WithSchemaURL(semconv.SchemaURL)),
		name:   cfg.Name, parent: cfg.Parent, open: map[uint64]*attempts{},
	}, nil
}

// ErrConfig is wrapped by the error of [NewSpans] for a configuration that is not valid.
var ErrConfig = errors.New("telemetry: invalid configuration")

// Handler returns a handler that calls next in a span. The producer's span is that of the
// context that the message was submitted with.
func Handler[M any](s *Spans, next dispatcher.Handler[M]) dispatcher.Handler[M] {
	return func(ctx context.Context, m M) error {
		ctx, returned := s.Begin(ctx, trace.SpanContextFromContext(ctx))
		err := next(ctx, m)
		returned()
		return err
	}
}

// Begin starts the span of an attempt, for adapters such as package tracing of ordering. ctx
// is that of the handler, and creation the span of the producer, if it is valid. The
// returned context has the new span, and returned is to be called when the handler has
// returned.
func (s *Spans) Begin(ctx context.Context, creation trace.SpanContext, attributes ...attribute.KeyValue) (_ context.Context, returned func()) {
	info, _ := dispatcher.InfoFrom(ctx)
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(semconv.MessagingSystemKey.String(system), semconv.MessagingOperationName("process"),
			semconv.MessagingOperationTypeProcess, semconv.MessagingDestinationName(s.name), attribute.Int("interlock.attempt", info.Attempt)),
		trace.WithAttributes(attributes...),
	}
	switch {
	case creation.IsValid() && s.parent:
		ctx = trace.ContextWithSpanContext(ctx, creation)
	case creation.IsValid():
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: creation}))
	}
	begun := time.Now()
	ctx, span := s.tracer.Start(ctx, "process "+s.name, append(options, trace.WithTimestamp(begun))...)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.get(info.ID)
	a.begun = append(a.begun, attempt{span, begun})
	return ctx, func() { span.AddEvent("returned") }
}

// get returns what is known of a message. It needs mu.
func (s *Spans) get(id uint64) *attempts {
	a := s.open[id]
	if a == nil {
		a = new(attempts)
		s.open[id] = a
	}
	return a
}

// Observer returns the [dispatcher.Config.Observer] that completes the spans. Without it
// none of them ends.
func Observer[M any](s *Spans) func(dispatcher.Event[M]) {
	return func(e dispatcher.Event[M]) {
		at := trace.WithTimestamp(e.Time)
		switch e.Kind {
		case dispatcher.Blocked:
			s.blocked(e.ID, wait{[]attribute.KeyValue{attribute.String("interlock.key", e.Key.String()), attribute.Int64("interlock.blocker", int64(e.Blocker))}, at})
		case dispatcher.Retried, dispatcher.Parked, dispatcher.Widened, dispatcher.Undone, dispatcher.Halted, dispatcher.Finished:
			s.end(e.ID, e.Kind.String(), e.Err, e.Time)
		}
	}
}

func (s *Spans) blocked(id uint64, w wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.get(id)
	a.waits = append(a.waits, w)
}

// end completes the span of an attempt that ended at a time.
func (s *Spans) end(id uint64, what string, err error, when time.Time) {
	span, waits := s.take(id, when)
	if span == nil {
		return // it was given up, or went back, before it began
	}
	at := trace.WithTimestamp(when)
	for _, w := range waits {
		span.AddEvent("blocked", w.at, trace.WithAttributes(w.attributes...))
	}
	if err != nil {
		span.AddEvent(what, at, trace.WithAttributes(semconv.ExceptionMessage(err.Error())))
		span.SetAttributes(semconv.ErrorTypeKey.String(errorTypes[errorType(err)]))
		span.SetStatus(codes.Error, err.Error())
	} else if what != dispatcher.Finished.String() {
		span.AddEvent(what, at)
	}
	span.End(at)
}

// take removes the first attempt of a message that had begun at a time; the span is nil if
// there is none.
func (s *Spans) take(id uint64, when time.Time) (span trace.Span, waits []wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.open[id]
	if a == nil {
		return nil, nil
	}
	waits, a.waits = a.waits, nil
	if len(a.begun) > 0 && !a.begun[0].at.After(when) {
		span, a.begun = a.begun[0].span, a.begun[1:]
	}
	if len(a.begun) == 0 {
		delete(s.open, id)
	}
	return span, waits
}
