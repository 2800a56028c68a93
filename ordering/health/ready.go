package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
)

// Check checks one of the things that a service needs.
type Check struct {
	// Name is part of the response.
	Name string
	// Check returns nil if all is well. It must return when ctx ends. Its error
	// is logged, and not part of the response.
	Check func(ctx context.Context) error
}

// ReadyConfig configures a [Ready]. The zero value of a field means its default.
type ReadyConfig struct {
	// Checks are called one after the other, for each request. Default: none, so
	// that the service is always ready.
	Checks []Check
	// Timeout bounds all checks of a request together. Default: 1 s.
	Timeout time.Duration
	// Logger logs each change of the result. Default: slog.Default().
	Logger *slog.Logger
}

// Ready is a handler for /readyz: it answers whether the service can do its work.
// The status is 200, or 503 with the names of the failed checks. Send the service
// requests only while it is ready.
//
// A service that also receives events by package replay/backup works while its
// broker is down. It should not have a check of the broker, or it would lose its
// backup channel when it is needed.
type Ready struct {
	cfg ReadyConfig

	mu struct {
		sync.Mutex
		failed string // names logged last
	}
}

var _ http.Handler = (*Ready)(nil)

// ErrConfig is wrapped by the error of [NewReady] for an invalid configuration; the
// text names every problem.
var ErrConfig = errors.New("health: bad configuration")

// NewReady returns a handler. The error wraps [ErrConfig].
func NewReady(cfg ReadyConfig) (*Ready, error) {
	settings.Default(&cfg.Timeout, time.Second)
	cfg.Logger = safelog.New(cfg.Logger)
	var p settings.Problems
	p.Add(cfg.Timeout < 0, "Timeout is %v: it must not be negative", cfg.Timeout)
	for i, c := range cfg.Checks {
		p.Add(c.Name == "", "Checks[%d]: Name is empty: set it", i)
		p.Add(c.Check == nil, "Checks[%d]: Check is nil: give a function", i)
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
		return // the client has left, which may have failed the checks
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
		h.cfg.Logger.Info("health: ready")
	default:
		h.cfg.Logger.Warn("health: not ready", "failed", failed, "err", errors.Join(errs...))
	}
}
