package safelog

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// broken is a handler that panics wherever it can.
type broken struct{}

func (broken) Enabled(context.Context, slog.Level) bool  { panic("enabled") }
func (broken) Handle(context.Context, slog.Record) error { panic("handle") }
func (broken) WithAttrs([]slog.Attr) slog.Handler        { panic("attrs") }
func (broken) WithGroup(string) slog.Handler             { panic("group") }

// TestWhatPanicsIsToldAllTheSame: on standard error, with all that the record has.
func TestWhatPanicsIsToldAllTheSame(t *testing.T) {
	var told bytes.Buffer
	defer func(h *slog.TextHandler) { lastResort = h }(lastResort)
	lastResort = slog.NewTextHandler(&told, nil)
	for name, log := range map[string]*slog.Logger{
		"broken":  slog.New(broken{}),
		"nothing": {},
	} {
		told.Reset()
		New(log).With("a", 1).WithGroup("g").Error("stream parked", "key", "client/42")
		assert.Contains(t, told.String(), "stream parked", name)
		assert.Contains(t, told.String(), "client/42", name)
		assert.Contains(t, told.String(), "logger panicked", name)
	}
}

func TestALoggerThatIsSound(t *testing.T) {
	var told bytes.Buffer
	log := New(slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelWarn})))
	require.Same(t, log, New(log), "it is made safe once")
	log.Info("not wanted")
	log.With("key", "a").Warn("parked")
	assert.NotContains(t, told.String(), "not wanted")
	assert.Contains(t, told.String(), "parked key=a")
	require.NotNil(t, New(nil))
}
