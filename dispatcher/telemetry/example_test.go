package telemetry_test

import (
	"context"
	"fmt"
	"log"
	"sort"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/telemetry"
	"github.com/interlock-go/interlock/lockkeys"
)

// A reader of OpenTelemetry gets the metrics of a dispatcher. Instead of this one, a service
// has the exporter for Prometheus, or a periodic one for OTLP, with the same option.
func Example() {
	metrics := telemetry.NewMetrics()
	d, err := dispatcher.New(dispatcher.Config[int]{
		Keys: func(account int, claim *lockkeys.Claim) error {
			claim.Exclusive(lockkeys.Must("account", fmt.Sprint(account)))
			return nil
		},
		Handler: func(context.Context, int) error { return nil },
		Measure: metrics.Measure("payments"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	if err := metrics.Add("payments", d); err != nil {
		log.Fatal(err)
	}
	reader := metric.NewManualReader(metric.WithProducer(metrics))
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	defer provider.Shutdown(context.Background())

	for account := range 3 {
		if err := d.Do(context.Background(), account); err != nil {
			log.Fatal(err)
		}
	}
	if err := d.Drain(context.Background()); err != nil {
		log.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		log.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name == "interlock.dispatcher.finished" {
			points := m.Data.(metricdata.Sum[float64]).DataPoints
			sort.Slice(points, func(i, j int) bool { return points[i].Value > points[j].Value })
			for _, p := range points {
				outcome, _ := p.Attributes.Value("interlock.outcome")
				fmt.Println(outcome.AsString(), p.Value)
			}
		}
	}
	// Output:
	// succeeded 3
	// failed 0
}
