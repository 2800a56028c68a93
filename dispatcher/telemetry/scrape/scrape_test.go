package scrape_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/dispatcher/telemetry"
	"github.com/interlock-go/interlock/dispatcher/telemetry/scrape"
	"github.com/interlock-go/interlock/dispatcher/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stopped is a source that was taken over, and is not connected any more.
type stopped struct{}

func (stopped) Metrics(context.Context) ([]view.Metric, error) {
	return []view.Metric{
		view.Stopped(true, true),
		{Name: "interlock.consumer.connected", Unit: "{state}", Help: "1 while it consumes, else 0.", Points: view.One(0)},
		{Name: "interlock.outbox.age", Unit: "s", Help: "Age.", Points: view.One(2.5)},
		{Name: "interlock.relay.confirmed", Unit: "{event}", Help: "Confirmed.", Grows: true, Points: view.One(7)},
	}, nil
}

// Metrics have the names that the dashboard and the alerts ask for.
func TestNames(t *testing.T) {
	metrics := telemetry.NewMetrics()
	require.NoError(t, metrics.Add("payments", stopped{}))
	handler, err := scrape.Handler(metrics)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	for _, line := range []string{
		`interlock_stopped{interlock_name="payments",interlock_reason="taken_over"} 1`,
		`interlock_stopped{interlock_name="payments",interlock_reason="failure"} 0`,
		`interlock_consumer_connected{interlock_name="payments"} 0`,
		`interlock_outbox_age_seconds{interlock_name="payments"} 2.5`,
		`interlock_relay_confirmed_total{interlock_name="payments"} 7`,
	} {
		assert.Contains(t, w.Body.String(), line+"\n")
	}
}
