package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/interlock-go/interlock/ordering"
)

// Handler takes events over HTTP and offers them to a sink. It is an
// [net/http.Handler] for any path and may be used from any number of goroutines
// at once. There is nothing to close: [net/http.Server.Shutdown] waits for the
// requests that are being served, ReadTimeout and Wait at most.
//
// Give the [net/http.Server] that it runs in a ReadHeaderTimeout, and if it has
// a WriteTimeout one that is longer than ReadTimeout and Wait together.
type Handler struct {
	cfg     HandlerConfig
	guard   guard
	slots   chan struct{} // holds one for each request that is served
	limiter *rate.Limiter

	stats struct {
		requests, turnedAway, events, refused, unfinished atomic.Uint64
	}
}

var (
	_ http.Handler = (*Handler)(nil)
	_ Sink         = (*ordering.Sequencer)(nil)
)

// HandlerStats is what a handler does and has done.
type HandlerStats struct {
	Open       int    // requests that are being served
	Requests   uint64 // those that came
	TurnedAway uint64 // those of them of which no event was offered
	Events     uint64 // events that were confirmed to their senders
	Refused    uint64 // events that can never run
	Unfinished uint64 // events whose senders were told to send them again
}

// NewHandler returns a handler. The error wraps [ErrConfig].
func NewHandler(cfg HandlerConfig) (*Handler, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	limit, burst := rate.Limit(cfg.Rate), max(cfg.MaxEvents, int(min(cfg.Rate, math.MaxInt32)))
	if math.IsInf(cfg.Rate, 1) {
		limit = rate.Inf
	}
	return &Handler{
		cfg:     cfg,
		guard:   newGuard(cfg.Keys, cfg.Tokens, cfg.MaxSkew),
		slots:   make(chan struct{}, cfg.MaxOpen),
		limiter: rate.NewLimiter(limit, burst),
	}, nil
}

// Stats returns what the handler does and has done.
func (h *Handler) Stats() HandlerStats {
	return HandlerStats{
		Open:       len(h.slots),
		Requests:   h.stats.requests.Load(),
		TurnedAway: h.stats.turnedAway.Load(),
		Events:     h.stats.events.Load(),
		Refused:    h.stats.refused.Load(),
		Unfinished: h.stats.unfinished.Load(),
	}
}

// refusal is what is answered to a request of which no event was offered.
type refusal struct {
	status int
	code   string
	err    error
	event  *int          // which one is at fault
	after  time.Duration // for Retry-After
}

// ServeHTTP takes the events of a request; see the package's doc for the
// protocol.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.stats.requests.Add(1)
	if no := h.serve(w, r); no != nil {
		h.stats.turnedAway.Add(1)
		h.refuse(w, r, no)
	}
}

// serve is in order of cost: who may not post is known before a slot is taken,
// and that there is a slot before anything is read.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) *refusal {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return &refusal{status: http.StatusMethodNotAllowed, code: "bad_method", err: errors.New("use POST")}
	}
	verify, err := h.guard.admit(r.Header.Get("Authorization"))
	if err != nil {
		return h.unauthorised(w, r, err)
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		return &refusal{status: http.StatusServiceUnavailable, code: codeBusy, after: time.Second,
			err: fmt.Errorf("%d requests are being served", h.cfg.MaxOpen)}
	}
	body, no := h.read(w, r)
	if no != nil {
		return no
	}
	if err := verify(body); err != nil {
		return h.unauthorised(w, r, err)
	}
	events, err := decodeRequest(body, h.cfg.MaxEvents)
	if err != nil {
		return malformed(err)
	}
	if wait := h.overRate(len(events)); wait > 0 {
		return &refusal{status: http.StatusTooManyRequests, code: codeTooMany, after: wait,
			err: fmt.Errorf("more than %v events a second", h.cfg.Rate)}
	}
	return h.take(w, r, events)
}

func (h *Handler) unauthorised(w http.ResponseWriter, r *http.Request, err error) *refusal {
	h.cfg.Logger.Warn("backup: request refused", "from", r.RemoteAddr, "error", err)
	w.Header()["Www-Authenticate"] = h.guard.challenge()
	return &refusal{status: http.StatusUnauthorized, code: codeUnauthorised, err: err}
}

// read reads the body of a request.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	header := r.Header.Get("Content-Type")
	if kind, _, err := mime.ParseMediaType(header); err != nil || kind != "application/json" {
		return nil, &refusal{status: http.StatusUnsupportedMediaType, code: "bad_type",
			err: fmt.Errorf("its type is %.80q: send application/json", header)}
	}
	tooLarge := &refusal{status: http.StatusRequestEntityTooLarge, code: codeTooLarge,
		err: fmt.Errorf("%w: the body is more than %d bytes", ErrTooLarge, h.cfg.MaxBytes)}
	if r.ContentLength > h.cfg.MaxBytes {
		return nil, tooLarge
	}
	// A writer that has no deadlines leaves them to the server.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(h.cfg.ReadTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.cfg.MaxBytes))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, tooLarge
	}
	if err != nil {
		return nil, &refusal{status: http.StatusBadRequest, code: "bad_request",
			err: fmt.Errorf("the body was cut off after %d bytes", len(body))}
	}
	_ = control.SetReadDeadline(time.Time{}) // or the connection would end while the events run
	return body, nil
}

func malformed(err error) *refusal {
	no := &refusal{status: http.StatusBadRequest, code: "bad_request", err: err}
	var bad *badEvent
	switch {
	case errors.Is(err, ErrVersion):
		no.code = codeVersion
	case errors.Is(err, ErrTooLarge):
		no.status, no.code = http.StatusRequestEntityTooLarge, codeTooLarge
	case errors.As(err, &bad):
		no.code, no.event = codeEvent, &bad.index
	}
	return no
}

// overRate returns 0 if n events may be taken now, or else when.
func (h *Handler) overRate(n int) time.Duration {
	now := time.Now()
	reservation := h.limiter.ReserveN(now, n)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// take offers the events and answers once their outcomes are known.
func (h *Handler) take(w http.ResponseWriter, r *http.Request, events []*ordering.Event) *refusal {
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.Wait)
	defer cancel()
	p := newPost(len(events))
	if offered, err := p.offer(ctx, h.cfg.Sink, events); err != nil && ctx.Err() == nil {
		h.cfg.Logger.Error("backup: the sink takes no events", "error", err)
		if offered == 0 {
			return &refusal{status: http.StatusServiceUnavailable, code: codeUnavailable, after: time.Second,
				err: errors.New("no events are taken now; the receiver has logged why")}
		}
	}
	results := p.wait(ctx)
	h.count(results)
	body, err := json.Marshal(answerBody{Version, results})
	if err != nil {
		panic(err) // strings and numbers only
	}
	write(w, http.StatusOK, body)
	return nil
}

func (h *Handler) count(results []result) {
	for _, r := range results {
		switch {
		case r.isDurable():
			h.stats.events.Add(1)
		case r.Result == ordering.Refused.String():
			h.stats.refused.Add(1)
		default:
			h.stats.unfinished.Add(1)
		}
	}
}

func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, no *refusal) {
	h.cfg.Logger.Debug("backup: request turned away", "from", r.RemoteAddr, "code", no.code, "error", no.err)
	if no.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(no.after.Seconds()))))
	}
	body, err := json.Marshal(errorBody{Version, errorText{no.code, message(no.err), no.event}})
	if err != nil {
		panic(err) // strings and numbers only
	}
	write(w, no.status, body)
}

// write writes a response. Whoever is gone before its end notices: the length
// comes first.
func write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
