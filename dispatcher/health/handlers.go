package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// Live returns a handler that answers with the status 200, and nothing else: a process that
// does not answer should be restarted.
func (m *Monitor) Live() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { write(w, answer{Status: "live"}) })
}

// Ready returns a handler that answers whether the service can do its work, with the status
// 200, or 503 with the names of the checks that have failed, and of the sources that have
// stopped or cannot be looked at. Send the service requests only while it is ready.
func (m *Monitor) Ready() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		failed, errs := m.check(r.Context())
		if r.Context().Err() != nil {
			return // the client has left, which may have failed the checks
		}
		m.logChecks(failed, errs)
		a := answer{Status: "ready", wrong: "not ready", Failed: failed}
		for i, name := range failed {
			a.why(name, []string{errs[i].Error()})
		}
		for name, h := range m.Sources() {
			if h.State == Stopped || h.State == Unknown {
				a.Failed = append(a.Failed, name)
				a.why(name, h.Reasons)
			}
		}
		m.write(w, a)
	})
}

// Stalled returns a handler that answers whether everything goes on that can, with the
// status 200, or 503 with the names of the sources that are stalled: for alarms.
func (m *Monitor) Stalled() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a := answer{Status: "not stalled", wrong: "stalled"}
		for name, h := range m.Sources() {
			if h.State == Stalled {
				a.Failed = append(a.Failed, name)
				a.why(name, h.Reasons)
			}
		}
		m.write(w, a)
	})
}

// check calls the checks, and returns the names of those that fail, with their errors.
func (m *Monitor) check(ctx context.Context) (failed []string, errs []error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	for _, c := range m.cfg.Checks {
		if err := safely(ctx, c.Check); err != nil {
			failed, errs = append(failed, c.Name), append(errs, err)
		}
	}
	return failed, errs
}

// safely calls a check; a panic is its error.
func safely(ctx context.Context, check func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the check panicked: %v", r)
		}
	}()
	return check(ctx)
}

// logChecks logs a change of the checks that fail.
func (m *Monitor) logChecks(failed []string, errs []error) {
	names := ""
	if len(failed) > 0 {
		names = fmt.Sprint(failed)
	}
	m.mu.Lock()
	before := m.mu.checks
	m.mu.checks = names
	m.mu.Unlock()
	switch {
	case names == before:
	case names == "":
		m.cfg.Logger.Info("health: all checks succeed again")
	default:
		m.cfg.Logger.Warn("health: not ready", "failed", failed, "err", errors.Join(errs...))
	}
}

// answer is the body of a response.
type answer struct {
	Status  string              `json:"status"`
	Failed  []string            `json:"failed,omitempty"`
	Reasons map[string][]string `json:"reasons,omitempty"`

	wrong string // the status if something has failed
}

func (a *answer) why(name string, reasons []string) {
	if a.Reasons == nil {
		a.Reasons = map[string][]string{}
	}
	a.Reasons[name] = reasons
}

func (m *Monitor) write(w http.ResponseWriter, a answer) {
	slices.Sort(a.Failed)
	if !m.cfg.Reasons {
		a.Reasons = nil
	}
	write(w, a)
}

// write writes a response, with its length, so that the client notices if it is cut off.
func write(w http.ResponseWriter, a answer) {
	status := http.StatusOK
	if len(a.Failed) > 0 {
		status, a.Status = http.StatusServiceUnavailable, a.wrong
	}
	body, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings only
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
