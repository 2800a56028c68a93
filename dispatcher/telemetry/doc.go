// Package telemetry gives metrics and spans of dispatchers, and of what stands on them, to
// OpenTelemetry.
//
// # Metrics
//
// [Metrics] is a producer for any reader of OpenTelemetry's SDK, such as the exporters for
// Prometheus and OTLP:
//
//	metrics := telemetry.NewMetrics()
//	d, err := dispatcher.New(dispatcher.Config[*Payment]{…, Measure: metrics.Measure("payments")})
//	err = metrics.Add("payments", d)
//	exporter, err := prometheus.New(prometheus.WithProducer(metrics))
//
// Counts are taken from the sources when the reader asks, so they cost a message nothing.
// Durations are those of [dispatcher.Config.Measure], and of commits and steps of sagas, see
// [Metrics.Commits] and [Metrics.Steps], in buckets that are atomic counters. METRICS.md lists all of them, and says how their distributions are to be read. There is
// no label with a key, an ID or an error's text, so the number of time series does not grow
// with the traffic.
//
// The temporality is always cumulative, and views of a MeterProvider do not apply, since the
// metrics do not come from its instruments.
//
// # Spans
//
// [Spans] makes one for each attempt, linked to the producer's. For events, whose headers
// name that span, see package tracing of ordering. Opt in where handlers do work: an
// observer and a span cost some microseconds a message.
//
// # Errors
//
// If a source cannot tell its metrics, as one in a database that is away, or does not within
// 5 seconds, the others are collected all the same, and the reader gets the error.
package telemetry
