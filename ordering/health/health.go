// Package health has HTTP handlers for the liveness and readiness of a service,
// for load balancers and orchestrators:
//
//	ready, err := health.NewReady(health.ReadyConfig{Checks: []health.Check{
//		{Name: "sequencer", Check: func(context.Context) error { return sequencer.Err() }},
//		{Name: "broker", Check: func(context.Context) error { return consumer.Ready() }},
//	}})
//	mux.Handle("/healthz", health.Alive())
//	mux.Handle("/readyz", ready)
package health

import (
	"net/http"
	"strconv"
)

// Alive returns a handler for /healthz: it answers with the status 200. A process
// that does not answer should be restarted.
func Alive() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, []byte(`{"status":"ok"}`))
	})
}

// write writes a response, with its length, so that the client notices if it is
// cut off.
func write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
