// Package web is the REST interface of the shop; openapi.json describes it.
package web

import (
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/interlock-go/interlock/examples/orders/internal/order"
	"github.com/interlock-go/interlock/examples/orders/internal/shop"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/replay/saga"
)

//go:embed openapi.json
var openAPI []byte

// Bounds of requests.
const (
	maxBody   = 1 << 20
	perSecond = 2000
	burst     = 500
)

// Handler serves the shop. If token is not empty, all but the description and the health
// check need it as bearer token. Beyond 2,000 requests a second it answers 429.
func Handler(s *shop.Shop, token string) http.Handler {
	a := &api{s, rate.NewLimiter(perSecond, burst)}
	inner := http.NewServeMux()
	inner.HandleFunc("PUT /orders/{id}", a.place)
	inner.HandleFunc("GET /orders/{id}", a.get)
	inner.HandleFunc("POST /orders/{id}/cancel", a.cancel)
	inner.HandleFunc("GET /orders/{id}/trace", a.trace)
	inner.HandleFunc("GET /customers/{id}/history", a.history)
	inner.HandleFunc("GET /customers/{id}/statement", a.statement)
	inner.HandleFunc("GET /summary", a.summary)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openAPI)
	})
	mux.HandleFunc("GET /health", a.health)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !wire.Authorized(r, token):
			w.Header().Set("WWW-Authenticate", "Bearer")
			problem(w, http.StatusUnauthorized, "the bearer token is wrong")
		case !a.limit.Allow():
			w.Header().Set("Retry-After", "1")
			problem(w, http.StatusTooManyRequests, "too many requests")
		default:
			inner.ServeHTTP(w, r)
		}
	})
	return mux
}

type api struct {
	*shop.Shop
	limit *rate.Limiter
}

// place takes an order under an ID of the client's choice, so that it can be repeated.
func (a *api) place(w http.ResponseWriter, r *http.Request) {
	var p order.Placement
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		problem(w, http.StatusBadRequest, "the body is no order: "+err.Error())
		return
	}
	if _, err := decoder.Token(); err != io.EOF {
		problem(w, http.StatusBadRequest, "there is something behind the order: send one")
		return
	}
	at, err := a.Place(r.Context(), r.PathValue("id"), p)
	switch {
	case errors.Is(err, shop.ErrInvalid):
		problem(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, shop.ErrOther):
		problem(w, http.StatusConflict, err.Error())
	case err != nil:
		problem(w, http.StatusServiceUnavailable, err.Error())
	default:
		w.Header().Set("Location", "/orders/"+r.PathValue("id"))
		answer(w, http.StatusAccepted, map[string]any{"order": r.PathValue("id"), "place": at.Number})
	}
}

// noOrder is the answer for an ID that no order has, or can have.
const noOrder = "there is no such order"

// get returns an order as its events say, which is never behind.
func (a *api) get(w http.ResponseWriter, r *http.Request) {
	o, err := a.Order(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, order.ErrID), err == nil && o.Status == order.Unknown:
		problem(w, http.StatusNotFound, noOrder)
	case err != nil:
		problem(w, http.StatusServiceUnavailable, err.Error())
	default:
		answer(w, http.StatusOK, o)
	}
}

func (a *api) cancel(w http.ResponseWriter, r *http.Request) {
	err := a.Cancel(r.Context(), r.PathValue("id"), "the customer has cancelled it")
	switch {
	case errors.Is(err, saga.ErrNoRun), errors.Is(err, order.ErrID):
		problem(w, http.StatusNotFound, noOrder)
	case errors.Is(err, saga.ErrPastPivot), errors.As(err, new(*saga.EndedError)):
		problem(w, http.StatusConflict, "it is too late: "+err.Error())
	case err != nil:
		problem(w, http.StatusServiceUnavailable, err.Error())
	default:
		answer(w, http.StatusAccepted, map[string]string{"order": r.PathValue("id")})
	}
}

func (a *api) trace(w http.ResponseWriter, r *http.Request) {
	entries, err := a.Trace(r.Context(), r.PathValue("id"))
	if errors.Is(err, order.ErrID) || err == nil && len(entries) == 0 {
		problem(w, http.StatusNotFound, noOrder)
		return
	}
	result(w, entries, err)
}

func (a *api) history(w http.ResponseWriter, r *http.Request) {
	list, err := a.History(r.Context(), r.PathValue("id"))
	result(w, list, err)
}

// statement returns the customer's orders, none of them half done.
func (a *api) statement(w http.ResponseWriter, r *http.Request) {
	list, err := a.Statement(r.Context(), r.PathValue("id"))
	if errors.Is(err, shop.ErrInvalid) {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	result(w, list, err)
}

func (a *api) summary(w http.ResponseWriter, r *http.Request) {
	list, err := a.Summary(r.Context())
	result(w, list, err)
}

// stuckAfter is after how long without a change a checkout counts as stuck.
const stuckAfter = time.Minute

// health reports whether checkouts can go on, and how many do not come on.
func (a *api) health(w http.ResponseWriter, r *http.Request) {
	if err := a.Sagas.Err(); err != nil {
		problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	stuck, err := a.Sagas.Stuck(r.Context(), stuckAfter)
	if err != nil {
		problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]any{"status": "ok", "stuck": len(stuck)})
}

func result(w http.ResponseWriter, value any, err error) {
	if err != nil {
		problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	answer(w, http.StatusOK, value)
}

func problem(w http.ResponseWriter, code int, text string) {
	answer(w, code, map[string]string{"error": text})
}

func answer(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // the client has gone, if it fails
}
