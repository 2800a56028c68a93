package health_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering/health"
)

func get(t *testing.T, h http.Handler) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	return w.Code, w.Body.String()
}

func TestAlive(t *testing.T) {
	status, body := get(t, health.Alive())
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, `{"status":"ok"}`, body)
}

// A service is ready while all its checks say so. Each change is logged
// once, with what the check says, which whoever asks is not told.
func TestReady(t *testing.T) {
	var broker, sequencer error
	var log bytes.Buffer
	ready, err := health.NewReady(health.ReadyConfig{Logger: slog.New(slog.NewTextHandler(&log, nil)), Checks: []health.Check{
		{Name: "broker", Check: func(context.Context) error { return broker }},
		{Name: "sequencer", Check: func(context.Context) error { return sequencer }},
	}})
	require.NoError(t, err)
	expect := func(status int, body string, logged int) {
		t.Helper()
		for range 2 {
			got, text := get(t, ready)
			assert.Equal(t, status, got)
			assert.Equal(t, body, text)
		}
		assert.Equal(t, logged, strings.Count(log.String(), "\n"), log.String())
	}
	expect(http.StatusOK, `{"status":"ready","failed":[]}`, 0)
	broker = errors.New("password wrong")
	expect(http.StatusServiceUnavailable, `{"status":"not ready","failed":["broker"]}`, 1)
	assert.Contains(t, log.String(), "password wrong")
	broker = nil
	expect(http.StatusOK, `{"status":"ready","failed":[]}`, 2)
	sequencer = errors.New("closed")
	expect(http.StatusServiceUnavailable, `{"status":"not ready","failed":["sequencer"]}`, 3)
}

// A check that takes too long has failed; one whose asker has left says nothing.
func TestSlowCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ready, err := health.NewReady(health.ReadyConfig{Logger: slog.New(slog.NewTextHandler(&log, nil)), Checks: []health.Check{
			{Name: "database", Check: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
		}})
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		w := httptest.NewRecorder()
		ready.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		assert.Zero(t, w.Body.Len())
		assert.Empty(t, log.String())

		began := time.Now()
		status, body := get(t, ready)
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Contains(t, body, "database")
		assert.Equal(t, time.Second, time.Since(began))
	})
}

func TestBadReadyConfig(t *testing.T) {
	_, err := health.NewReady(health.ReadyConfig{Timeout: -1, Checks: []health.Check{{}}})
	require.ErrorIs(t, err, health.ErrConfig)
	for _, problem := range []string{"Timeout is -1ns", "Checks[0]: Name is empty", "Checks[0]: Check is nil"} {
		assert.ErrorContains(t, err, problem)
	}
}
