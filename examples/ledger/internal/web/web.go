// Package web takes messages over HTTP, one in a request, and answers when
// what they did is lasting.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/service"
	"github.com/interlock-go/interlock/ordering"
)

// Doer runs a message and waits for its answer.
type Doer interface {
	Do(ctx context.Context, m *book.Message) (book.Reply, error)
	// Stopped tells whether nothing runs any more.
	Stopped() bool
}

// Answer is the body of every answer to a message.
type Answer struct {
	Status string       `json:"status"`
	Reason book.Reason  `json:"reason,omitempty"` // of a rejection
	Error  string       `json:"error,omitempty"`
	Totals []book.Money `json:"totals,omitempty"`
}

// What Status may be.
const (
	Applied   = "applied"
	Done      = "done before" // by its numbers: it was not applied again
	Held      = "held"        // kept until those come that its numbers say are before it
	Malformed = "malformed"   // no message: do not send it again
	Rejected  = "rejected"    // the book does not allow it, or an expectation did not hold
	Unknown   = "unknown"     // it may yet be applied
	Refused   = "refused"     // not accepted: send it again later
	Failed    = "failed"      // not applied
)

// maxBody bounds the bytes of a message.
const maxBody = 1 << 20

// patience is how long a request waits for its message to be applied.
const patience = 30 * time.Second

// Handler serves POST /messages, GET /schema and GET /health.
func Handler(doer Doer, schema string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /messages", func(w http.ResponseWriter, r *http.Request) {
		code, answer := take(doer, w, r)
		respond(w, code, answer)
	})
	mux.HandleFunc("GET /schema", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/schema+json")
		io.WriteString(w, schema) // when it fails the client is gone
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if doer.Stopped() {
			http.Error(w, "stopped by a failure", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ok\n")
	})
	return mux
}

func take(doer Doer, w http.ResponseWriter, r *http.Request) (code int, a Answer) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return http.StatusRequestEntityTooLarge, Answer{Status: Malformed, Error: err.Error()}
		}
		return http.StatusBadRequest, Answer{Status: Malformed, Error: "the request has no whole body: " + err.Error()}
	}
	m, err := book.Decode(body)
	if err != nil {
		return http.StatusBadRequest, Answer{Status: Malformed, Error: err.Error()}
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	reply, err := doer.Do(ctx, m)
	return judge(reply, err, ctx.Err())
}

// judge makes an answer of what came of a message; waited is the error of the
// request's context.
func judge(reply book.Reply, err, waited error) (code int, a Answer) {
	if err == nil {
		return http.StatusOK, Answer{Status: Applied, Totals: reply.Totals}
	}
	if rejection, ok := errors.AsType[*book.Rejection](err); ok {
		return http.StatusConflict, Answer{Status: Rejected, Reason: rejection.Reason, Error: rejection.Error()}
	}
	if unmet, ok := errors.AsType[*book.UnmetError](err); ok {
		return http.StatusConflict, Answer{Status: Rejected, Reason: "expectation not met", Error: unmet.Error()}
	}
	switch {
	case errors.Is(err, service.ErrDone):
		return http.StatusOK, Answer{Status: Done}
	case errors.Is(err, service.ErrHeld):
		return http.StatusAccepted, Answer{Status: Held}
	case contradicts(err):
		return http.StatusConflict, Answer{Status: Rejected, Reason: "numbers", Error: err.Error()}
	case errors.Is(err, ordering.ErrClosed):
		return http.StatusServiceUnavailable, Answer{Status: Refused, Error: "the service is ending"}
	case errors.Is(err, ordering.ErrStopped):
		return http.StatusServiceUnavailable, Answer{Status: Refused, Error: "the service has stopped after a failure"}
	case waited != nil:
		return http.StatusGatewayTimeout, Answer{Status: Unknown, Error: "no answer in time: look at the balances before sending it again"}
	}
	return http.StatusInternalServerError, Answer{Status: Failed, Error: "the message could not be applied; the service stops"}
}

// contradicts tells whether a message can never run for its numbers.
func contradicts(err error) bool {
	_, contradiction := errors.AsType[*ordering.ContradictionError](err)
	return contradiction || errors.Is(err, ordering.ErrEnded)
}

func respond(w http.ResponseWriter, code int, a Answer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(a) // when it fails the client is gone
}
