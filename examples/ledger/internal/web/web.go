// Package web takes messages over HTTP, one in a request, and answers when
// what they did is lasting.
package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/service"
	"github.com/interlock-go/interlock/ordering"
)

// Doer runs a message and waits for its answer.
type Doer interface {
	Do(ctx context.Context, m *book.Message) (book.Reply, error)
	// Stopped reports whether nothing runs any more.
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
	Rejected  = "rejected"    // the book does not allow it, an expectation did not hold, or its ID is taken
	Unknown   = "unknown"     // it may yet be applied
	Refused   = "refused"     // not accepted: send it again later
)

// maxBody bounds the bytes of a message, and with them how long one holds up
// others: a fraction of a second.
const maxBody = 256 << 10

// patience is how long a request waits for its message to be applied.
const patience = 30 * time.Second

// Config says who may send messages.
type Config struct {
	Schema string // of a message
	// Token, if set, is what requests must have as bearer token.
	Token string
	// Local says that requests come to an address of this machine that others
	// cannot reach: they must then name it by a name of this machine, or a page of
	// somebody else in a browser here could send some (DNS rebinding).
	Local bool
	// Page, if set, is served at /interlock/. It asks for the token itself, as a password.
	Page http.Handler
	// Metrics, if set, is served at /metrics.
	Metrics http.Handler
}

// PagePath is where [Config].Page is served.
const PagePath = "/interlock/"

// Handler serves POST /messages, GET /schema, GET /health, GET /metrics and the page. Requests that
// a browser makes for a page of another origin are refused.
func Handler(doer Doer, c Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /messages", func(w http.ResponseWriter, r *http.Request) {
		code, answer := take(doer, w, r)
		respond(w, code, answer)
	})
	mux.HandleFunc("GET /schema", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/schema+json")
		io.WriteString(w, c.Schema) // when it fails the client is gone
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if doer.Stopped() {
			http.Error(w, "stopped by a failure", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ok\n")
	})
	if c.Metrics != nil {
		mux.Handle("GET /metrics", c.Metrics)
	}
	if c.Page != nil {
		mux.Handle(PagePath, http.StripPrefix(strings.TrimSuffix(PagePath, "/"), c.Page))
	}
	return c.guard(http.NewCrossOriginProtection().Handler(mux))
}

// guard lets those requests pass whose sender may send them.
func (c Config) guard(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte("Bearer " + c.Token))
	open := func(path string) bool { return path == "/health" || strings.HasPrefix(path, PagePath) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		switch {
		case c.Token != "" && !open(r.URL.Path) && subtle.ConstantTimeCompare(got[:], want[:]) == 0:
			w.Header().Set("WWW-Authenticate", "Bearer")
			respond(w, http.StatusUnauthorized, Answer{Status: Refused, Error: "the bearer token is missing or wrong"})
		case c.Local && !isLocal(r.Host):
			respond(w, http.StatusForbidden, Answer{Status: Refused, Error: "the host is not a name of this machine"})
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isLocal reports whether a host is localhost or an address of the loopback
// interface.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
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
	if err == nil {
		err = identify(m, r.Header)
	}
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
		return http.StatusOK, replied(Applied, reply)
	}
	if rejection, ok := book.Refused(err); ok {
		code = http.StatusConflict
		if rejection.Reason == book.IDTaken {
			code = http.StatusUnprocessableEntity
		}
		return code, Answer{Status: Rejected, Reason: rejection.Reason, Error: rejection.Error()}
	}
	switch {
	case errors.Is(err, service.ErrDone):
		return http.StatusOK, replied(Done, reply)
	case errors.Is(err, service.ErrHeld):
		return http.StatusAccepted, Answer{Status: Held}
	case contradicts(err):
		return http.StatusConflict, Answer{Status: Rejected, Reason: "numbers", Error: err.Error()}
	case errors.Is(err, service.ErrInDoubt) && errors.Is(err, ordering.ErrFenced):
		return http.StatusInternalServerError, Answer{Status: Unknown, Error: "another program has taken over the database meanwhile: " + sendAgain}
	case errors.Is(err, service.ErrInDoubt):
		return http.StatusInternalServerError, Answer{Status: Unknown, Error: "the service has ended: " + sendAgain}
	case errors.Is(err, ordering.ErrFenced):
		return http.StatusServiceUnavailable, Answer{Status: Refused, Error: "another program has taken over the database: send it to that one"}
	case errors.Is(err, ordering.ErrClosed):
		return http.StatusServiceUnavailable, Answer{Status: Refused, Error: "the service is ending"}
	case errors.Is(err, ordering.ErrStopped):
		return http.StatusServiceUnavailable, Answer{Status: Refused, Error: "the service has stopped after a failure"}
	case waited != nil:
		return http.StatusGatewayTimeout, Answer{Status: Unknown, Error: "no answer in time: " + sendAgain}
	}
	return http.StatusInternalServerError, Answer{Status: Unknown, Error: "the service stops after a failure: " + sendAgain}
}

// replied is the answer to a message that was applied, now or before.
func replied(status string, reply book.Reply) Answer {
	a := Answer{Status: status, Totals: reply.Totals}
	if reply.Cut {
		a.Error = "the totals are more than an answer has room for, and are left out"
	}
	return a
}

const sendAgain = "with an id or numbers of its own the message can be sent again, otherwise look at the balances first"

// contradicts reports whether a message can never run for its numbers.
func contradicts(err error) bool {
	return errors.Is(err, ordering.ErrContradiction) || errors.Is(err, ordering.ErrEnded)
}

func respond(w http.ResponseWriter, code int, a Answer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(a) // when it fails the client is gone
}
