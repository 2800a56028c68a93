package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/interlock-go/interlock/dispatcher"
)

// durations are the histograms of one dispatcher.
type durations struct {
	process [len(errorTypes)]histogram // by the error's type
	queue   histogram
	wait    histogram
	hold    histogram
}

// errorTypes are the values of error.type; the first stands for success.
var errorTypes = [...]string{"", "_OTHER", "timeout", "hold_timeout", "panic", "keys", "canceled"}

// errorType returns the index of an error in errorTypes.
func errorType(err error) int {
	var (
		panicked *dispatcher.PanicError
		keys     *dispatcher.KeyFuncError
	)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, dispatcher.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return 2
	case errors.Is(err, dispatcher.ErrHoldTimeout):
		return 3
	case errors.As(err, &keys):
		return 5
	case errors.As(err, &panicked):
		return 4
	case errors.Is(err, context.Canceled):
		return 6
	}
	return 1
}

// measure adds a measurement.
func (d *durations) measure(m dispatcher.Measurement) {
	if m.Sampled {
		d.queue.add(m.Worker, m.Started.Sub(m.Submitted))
		d.process[errorType(m.Err)].add(m.Worker, m.Handled)
	}
	if m.Waited > 0 {
		d.wait.add(m.Worker, m.Waited)
	}
	if m.Held > 0 {
		d.hold.add(m.Worker, m.Held)
	}
}

// collect implements measured.
func (d *durations) collect(c *collector, name string) {
	own := []attribute.KeyValue{nameKey.String(name)}
	for i := range d.process {
		attributes := []attribute.KeyValue{
			semconv.MessagingSystemKey.String(system), semconv.MessagingOperationName("process"), semconv.MessagingDestinationName(name),
		}
		if i > 0 {
			attributes = append(attributes, semconv.ErrorTypeKey.String(errorTypes[i]))
		}
		if p := d.process[i].point(); p.Count > 0 || i == 0 {
			c.histogram("messaging.process.duration", "s", "Time in the handler, all attempts together, of a sample of messages.", p, attributes)
		}
	}
	c.histogram("interlock.dispatcher.queue.duration", "s", "Time from the submission to the first attempt, of a sample of messages.", d.queue.point(), own)
	c.histogram("interlock.dispatcher.lock.wait.duration", "s", "Time behind conflicting messages, of all messages that had to wait.", d.wait.point(), own)
	c.histogram("interlock.dispatcher.hold.duration", "s", "Time that keys were kept after the handler had returned, of all messages that were held.", d.hold.point(), own)
}

// histogram adds a point to a histogram.
func (c *collector) histogram(name, unit, help string, p metricdata.HistogramDataPoint[float64], attributes []attribute.KeyValue) {
	p.Attributes, p.StartTime, p.Time = attribute.NewSet(attributes...), c.begun, c.now
	m := c.metric(name, unit, help)
	h, _ := m.Data.(metricdata.Histogram[float64])
	h.Temporality = metricdata.CumulativeTemporality
	h.DataPoints = append(h.DataPoints, p)
	m.Data = h
}
