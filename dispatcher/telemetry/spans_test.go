package telemetry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/telemetry"
)

// TestSpans: the producer's span comes with the context of Submit, the handler has the
// attempt's, and that lasts until the message has ended, is parked or tried again.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
		spans, err := telemetry.NewSpans(telemetry.SpansConfig{Provider: provider, Name: "jobs"})
		require.NoError(t, err)
		tracer := provider.Tracer("test")
		cfg := dispatcher.Config[job]{Failure: dispatcher.Park, Observer: telemetry.Observer[job](spans)}
		d := start(t, cfg, telemetry.Handler(spans, func(ctx context.Context, j job) error {
			_, inner := tracer.Start(ctx, "inner")
			defer inner.End()
			return j.run(ctx)
		}))
		for _, j := range []job{
			{"a", takes(time.Second, nil)},
			{"b", func(ctx context.Context) error {
				finish, err := dispatcher.Hold(ctx)
				time.AfterFunc(5*time.Second, func() { finish(nil) })
				return err
			}},
			{"c", takes(0, errors.New("failed"))},
			{"c", takes(0, nil)}, // never begins
		} {
			ctx, made := tracer.Start(t.Context(), "made")
			require.NoError(t, d.Submit(ctx, j))
			made.End()
			synctest.Wait()
		}
		require.NoError(t, d.Drain(t.Context()))
		require.NoError(t, d.Drop(t.Context(), 3))
		require.NoError(t, d.Close())
		require.NoError(t, provider.ForceFlush(t.Context()))

		took := map[time.Duration][]string{}
		made := map[string]bool{}
		inner := map[string]bool{}
		for _, s := range exporter.GetSpans() {
			switch s.Name {
			case "made":
				made[s.SpanContext.SpanID().String()] = true
			case "inner":
				inner[s.Parent.SpanID().String()] = true
			default:
				assert.Equal(t, "process jobs", s.Name)
				require.Len(t, s.Links, 1)
				assert.True(t, made[s.Links[0].SpanContext.SpanID().String()])
				assert.True(t, inner[s.SpanContext.SpanID().String()])
				for _, e := range s.Events {
					took[s.EndTime.Sub(s.StartTime)] = append(took[s.EndTime.Sub(s.StartTime)], e.Name)
				}
			}
		}
		assert.Equal(t, map[time.Duration][]string{time.Second: {"returned"}, 5 * time.Second: {"returned"}, 0: {"returned", "parked"}}, took)
		assert.Len(t, made, 4)
		require.NoError(t, provider.Shutdown(t.Context()))
	})
}

// TestSpansOfALateObserver: each attempt has a span that ends with it, also if the next one
// has begun before the observer gets to that.
func TestSpansOfALateObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
		spans, err := telemetry.NewSpans(telemetry.SpansConfig{Provider: provider, Name: "jobs"})
		require.NoError(t, err)
		observe := telemetry.Observer[job](spans)
		attempts := 0
		cfg := dispatcher.Config[job]{
			MaxAttempts: 3, Backoff: dispatcher.Backoff{Initial: time.Second, Jitter: -1},
			Observer: func(e dispatcher.Event[job]) { time.Sleep(time.Hour); observe(e) },
		}
		d := start(t, cfg, telemetry.Handler(spans, func(ctx context.Context, _ job) error {
			attempts++
			time.Sleep(time.Duration(attempts) * time.Minute)
			if attempts < 3 {
				return errors.New("failed")
			}
			return nil
		}))
		require.NoError(t, d.Submit(t.Context(), job{"a", nil}))
		require.NoError(t, d.Drain(t.Context()))
		require.NoError(t, d.Close())

		var took []time.Duration
		var failed []bool
		for _, s := range exporter.GetSpans() {
			took = append(took, s.EndTime.Sub(s.StartTime))
			failed = append(failed, s.Status.Code == codes.Error)
		}
		assert.Equal(t, []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute}, took)
		assert.Equal(t, []bool{true, true, false}, failed)
		require.NoError(t, provider.Shutdown(t.Context()))
	})
}

func TestSpansConfig(t *testing.T) {
	_, err := telemetry.NewSpans(telemetry.SpansConfig{})
	require.ErrorIs(t, err, telemetry.ErrConfig)
	require.ErrorContains(t, err, "Provider")
	require.ErrorContains(t, err, "Name")
}
