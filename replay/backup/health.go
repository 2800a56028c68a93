package backup

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
)

// Health answers that the process is alive, with the status 200: for /healthz.
// Whoever asks and hears nothing should start it anew.
func Health() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, []byte(`{"status":"ok"}`))
	})
}

// Check is one of the things that a service needs to be of use.
type Check struct {
	// Name is told to whoever asks.
	Name string
	// Check returns nil if all is well. It must return when ctx ends. What it
	// says is logged, and not told to whoever asks.
	Check func(ctx context.Context) error
}

// ReadyConfig configures a [Ready]. The zero value of a field means its default.
type ReadyConfig struct {
	// Checks are asked one after the other, for each request. Default: none,
	// so that the service is always ready.
	Checks []Check
	// Timeout bounds all checks of a request together. Default: 1 s.
	Timeout time.Duration
	// Logger is told whenever the result has changed. Default: slog.Default().
	Logger *slog.Logger
}

// Ready answers whether the service can do its work: for /readyz. The status is
// 200, or 503 with the names of the checks that have failed. Whoever asks
// should send it requests only while it is ready.
//
// A receiver that is still of use while its broker is away should not make that
// a check: it would lose the backup channel when that is needed.
type Ready struct {
	cfg ReadyConfig

	mu struct {
		sync.Mutex
		failed string // what was logged last
	}
}

var _ http.Handler = (*Ready)(nil)

// NewReady returns a handler. The error wraps [ErrConfig].
func NewReady(cfg ReadyConfig) (*Ready, error) {
	settings.Default(&cfg.Timeout, time.Second)
	cfg.Logger = safelog.New(cfg.Logger)
	var p settings.Problems
	p.Add(cfg.Timeout < 0, "Timeout is %v: it must not be negative", cfg.Timeout)
	for i, c := range cfg.Checks {
		p.Add(c.Name == "", "Checks[%d]: Name is empty", i)
		p.Add(c.Check == nil, "Checks[%d]: Check is nil", i)
	}
	if err := p.Err(ErrConfig); err != nil {
		return nil, err
	}
	return &Ready{cfg: cfg}, nil
}

// ServeHTTP answers a request.
func (h *Ready) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.Timeout)
	defer cancel()
	failed, errs := []string{}, []error{}
	for _, c := range h.cfg.Checks {
		if err := c.Check(ctx); err != nil {
			failed, errs = append(failed, c.Name), append(errs, err)
		}
	}
	if r.Context().Err() != nil {
		return // nobody waits for it, and the checks may have failed for that
	}
	h.log(failed, errs)
	status, text := http.StatusOK, "ready"
	if len(failed) > 0 {
		status, text = http.StatusServiceUnavailable, "not ready"
	}
	body, err := json.Marshal(struct {
		Status string   `json:"status"`
		Failed []string `json:"failed"`
	}{text, failed})
	if err != nil {
		panic(err) // strings only
	}
	write(w, status, body)
}

func (h *Ready) log(failed []string, errs []error) {
	names := fmt.Sprint(failed)
	if len(failed) == 0 {
		names = ""
	}
	h.mu.Lock()
	before := h.mu.failed
	h.mu.failed = names
	h.mu.Unlock()
	switch {
	case names == before:
	case names == "":
		h.cfg.Logger.Info("backup: ready")
	default:
		h.cfg.Logger.Warn("backup: not ready", "failed", failed, "errors", errs)
	}
}
