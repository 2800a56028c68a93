package backup_test

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

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/backup"
)

func get(t *testing.T, h http.Handler) (int, string) {
	t.Helper()
	response, body := ask(t, h, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	return response.StatusCode, body
}

func TestHealth(t *testing.T) {
	status, body := get(t, backup.Health())
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, `{"status":"ok"}`, body)
}

// A service is ready while its sequencer takes events. Each change is logged
// once, with what the check says, which whoever asks is not told.
func TestReady(t *testing.T) {
	seq, _ := sequencer(t, ordering.Config{})
	var broker error
	var log bytes.Buffer
	ready, err := backup.NewReady(backup.ReadyConfig{Logger: slog.New(slog.NewTextHandler(&log, nil)), Checks: []backup.Check{
		{Name: "broker", Check: func(context.Context) error { return broker }},
		{Name: "sequencer", Check: func(context.Context) error { return seq.Err() }},
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
	require.NoError(t, seq.Close())
	expect(http.StatusServiceUnavailable, `{"status":"not ready","failed":["sequencer"]}`, 3)
}

// A check that takes too long has failed; one whose asker has left says nothing.
func TestSlowCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ready, err := backup.NewReady(backup.ReadyConfig{Logger: slog.New(slog.NewTextHandler(&log, nil)), Checks: []backup.Check{
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
	_, err := backup.NewReady(backup.ReadyConfig{Timeout: -1, Checks: []backup.Check{{}}})
	require.ErrorIs(t, err, backup.ErrConfig)
	for _, problem := range []string{"Timeout is -1ns", "Checks[0]: Name is empty", "Checks[0]: Check is nil"} {
		assert.ErrorContains(t, err, problem)
	}
}
