package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/internal/contain"
)

// Scope is the name of the instrumentation scope of all metrics and spans.
const Scope = "github.com/interlock-go/interlock"

// system is messaging.system.
const system = "interlock"

// nameKey is the attribute with the name of a source.
const nameKey = attribute.Key("interlock.name")

// ErrName is wrapped by the error of [Metrics.Add] for a name that is empty or taken.
var ErrName = errors.New("telemetry: name")

// Metrics collects the metrics of sources, for readers of OpenTelemetry. Its methods are
// safe for concurrent use. It has nothing to close.
type Metrics struct {
	mu       sync.Mutex
	measured []named[measured]
	sources  []named[view.Metered]
}

type named[T any] struct {
	name string
	of   T
	// since is when the counts began, by which they are told from those of one that had the
	// name before.
	since time.Time
}

// measured has histograms of its own.
type measured interface {
	// collect adds their points, with the name of what is measured.
	collect(c *collector, name string)
}

var _ metric.Producer = (*Metrics)(nil)

// NewMetrics returns an empty collection.
func NewMetrics() *Metrics { return new(Metrics) }

// Measure returns the [dispatcher.Config.Measure] of a dispatcher, whose durations are
// collected from now on, with the attribute interlock.name or messaging.destination.name.
// Dispatchers with the same name have their durations in common.
func (c *Metrics) Measure(name string) func(dispatcher.Measurement) {
	return measuredAs(c, name, func() *durations { return new(durations) }).measure
}

// Commits returns the function for sqlstore's Store.Measure, by which the commits of a store
// are collected from now on, with the attribute interlock.name.
func (c *Metrics) Commits(name string) func(view.Commit) {
	return measuredAs(c, name, func() *commits { return new(commits) }).measure
}

// Steps returns the function for Measure of saga's Config, by which the calls of steps are
// collected from now on, with the attribute interlock.name.
func (c *Metrics) Steps(name string) func(view.Step) {
	return measuredAs(c, name, func() *steps { return &steps{of: map[step]*histogram{}} }).measure
}

// measuredAs returns the histograms of a kind that have a name, and makes them if necessary.
func measuredAs[M measured](c *Metrics, name string, empty func() M) M {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.measured {
		if of, is := m.of.(M); is && m.name == name {
			return of
		}
	}
	of := empty()
	c.measured = append(c.measured, named[measured]{name, of, time.Now()})
	return of
}

// Add collects the metrics of a source from now on, with its name as the attribute
// interlock.name: of a dispatcher, a sequencer, an outbox, or whatever else is
// [view.Metered]. The error wraps [ErrName] if the name is empty or that of another source; a
// source must not be nil.
func (c *Metrics) Add(name string, source view.Metered) error {
	if name == "" {
		return fmt.Errorf("%w is empty: give the source one, by which it is found in a chart", ErrName)
	}
	if source == nil {
		return fmt.Errorf("telemetry: the source %.80q is nil: give one", name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.sources, func(s named[view.Metered]) bool { return s.name == name }) {
		return fmt.Errorf("%w %.80q is taken: give each source its own", ErrName, name)
	}
	c.sources = append(c.sources, named[view.Metered]{name, source, time.Now()})
	return nil
}

// Remove ends the collection of a source and of what is measured with this name, as when it
// was closed. It does nothing if there is no such name. The name can be used again, for what
// counts from 0 again.
func (c *Metrics) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources = slices.DeleteFunc(slices.Clone(c.sources), func(s named[view.Metered]) bool { return s.name == name })
	c.measured = slices.DeleteFunc(slices.Clone(c.measured), func(m named[measured]) bool { return m.name == name })
}

// Produce implements [metric.Producer]. The error joins those of sources that could not
// tell all of their metrics.
func (c *Metrics) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	c.mu.Lock()
	sources, measured := c.sources, c.measured
	c.mu.Unlock()
	lists, errs := ask(ctx, sources)
	all := &collection{now: time.Now()}
	for i, s := range sources {
		for _, m := range lists[i] {
			all.since(s.since).count(s.name, m)
		}
	}
	for _, m := range measured {
		m.of.collect(all.since(m.since), m.name)
	}
	scope := instrumentation.Scope{Name: Scope, SchemaURL: semconv.SchemaURL}
	return []metricdata.ScopeMetrics{{Scope: scope, Metrics: all.list}}, errors.Join(errs...)
}

// askAtMost bounds the wait for a source whose database does not answer. A reader may set no
// time itself, and Prometheus waits for 10 s.
const askAtMost = 5 * time.Second

// ask returns the metrics of all sources, which are asked at the same time, so that one that
// does not answer holds up no other; and their errors, some of which may be nil.
func ask(ctx context.Context, sources []named[view.Metered]) (lists [][]view.Metric, errs []error) {
	ctx, cancel := context.WithTimeout(ctx, askAtMost)
	defer cancel()
	lists, errs = make([][]view.Metric, len(sources)), make([]error, len(sources))
	var asked sync.WaitGroup
	for i, s := range sources {
		asked.Go(func() {
			var err error
			if lists[i], err = metricsOf(ctx, s.of); err != nil {
				errs[i] = fmt.Errorf("telemetry: metrics of %.80q: %w", s.name, err)
			}
		})
	}
	asked.Wait()
	return lists, errs
}

// metricsOf returns the metrics of a source. A panic is its error.
func metricsOf(ctx context.Context, source view.Metered) (list []view.Metric, err error) {
	defer contain.Recover(&err)
	return source.Metrics(ctx)
}

// collection is what one call of Produce collects.
type collection struct {
	now  time.Time
	list []metricdata.Metrics
}

// collector adds points to a collection that count from a time.
type collector struct {
	*collection
	begun time.Time
}

func (c *collection) since(begun time.Time) *collector { return &collector{c, begun} }

// metric returns the metric with a name, and makes it if necessary. It is valid until the
// next call.
func (c *collection) metric(name, unit, help string) *metricdata.Metrics {
	for i := range c.list {
		if c.list[i].Name == name {
			return &c.list[i]
		}
	}
	c.list = append(c.list, metricdata.Metrics{Name: name, Unit: unit, Description: help})
	return &c.list[len(c.list)-1]
}

// count adds the points of a metric of the source with this name.
func (c *collector) count(source string, m view.Metric) {
	var points []metricdata.DataPoint[float64]
	for _, p := range m.Points {
		attributes := []attribute.KeyValue{nameKey.String(source)}
		if strings.HasPrefix(m.Name, "messaging.") {
			attributes = []attribute.KeyValue{semconv.MessagingSystemKey.String(system), semconv.MessagingDestinationName(source)}
		}
		if m.Attribute != "" {
			attributes = append(attributes, attribute.String(m.Attribute, p.Of))
		}
		points = append(points, metricdata.DataPoint[float64]{Attributes: attribute.NewSet(attributes...), StartTime: c.begun, Time: c.now, Value: p.Value})
	}
	to := c.metric(m.Name, m.Unit, m.Help)
	if m.Grows {
		sum, _ := to.Data.(metricdata.Sum[float64])
		to.Data = metricdata.Sum[float64]{DataPoints: append(sum.DataPoints, points...), Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
		return
	}
	gauge, _ := to.Data.(metricdata.Gauge[float64])
	to.Data = metricdata.Gauge[float64]{DataPoints: append(gauge.DataPoints, points...)}
}
