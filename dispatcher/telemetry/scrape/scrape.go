// Package scrape serves metrics to Prometheus:
//
//	metrics := telemetry.NewMetrics()
//	handler, err := scrape.Handler(metrics)
//	mux.Handle("GET /metrics", handler)
//
// Beside it are a dashboard for Grafana and rules for alerts: dashboard.json and
// alerts.yml. What to do about each alert is in OPERATING.md of package dispatcher.
package scrape

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/interlock-go/interlock/dispatcher/telemetry"
)

// Handler returns a handler that answers with the metrics in Prometheus' text form, under
// names such as interlock_dispatcher_finished_total. It has no authentication, no goroutine
// and nothing to close. Errors of sources go to OpenTelemetry's error handler, see
// otel.SetErrorHandler; what other sources tell is in the answer all the same.
func Handler(metrics *telemetry.Metrics) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithProducer(metrics),
		otelprom.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("scrape: %w", err)
	}
	metric.NewMeterProvider(metric.WithReader(exporter)) // the exporter collects nothing without one
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
