package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/interlock-go/interlock/internal/httpauth"
	"github.com/interlock-go/interlock/internal/loglimit"
	"github.com/interlock-go/interlock/ordering"
)

// Handler receives events over HTTP and offers them to a sink. It is an
// [net/http.Handler] for any path, safe for concurrent use. There is nothing to
// close: [net/http.Server.Shutdown] waits for the requests being served, at most
// ReadTimeout, Wait and WriteTimeout.
//
// A request is served once its sender is authorised. Unauthorised requests cost no
// more than reading them: they do not keep others from being served, and do not
// flood the log.
//
// Give its [net/http.Server] a ReadHeaderTimeout, a MaxHeaderBytes of 16 KiB or so
// and an IdleTimeout, and no WriteTimeout, or one longer than ReadTimeout and Wait
// together. The number of connections must be bounded there too.
type Handler struct {
	cfg      HandlerConfig
	guard    guard
	refusals *httpauth.Refusals
	intake   *intake         // for bodies whose senders are unknown
	slots    *httpauth.Slots // for requests whose senders are authorised
	limiters []*rate.Limiter // for all events, and then for those of each sender

	sinkErrors loglimit.Limit // each request would be a line

	stats struct {
		requests, turnedAway, events, refused, unfinished atomic.Uint64
	}
}

var (
	_ http.Handler = (*Handler)(nil)
	_ Sink         = (*ordering.Sequencer[*ordering.Event])(nil)
)

// HandlerStats counts what a handler has done since it was made.
type HandlerStats struct {
	Reading      int    // requests whose bodies are being read
	Open         int    // requests being served
	Requests     uint64 // requests received
	TurnedAway   uint64 // of those, refused before any event was offered
	Unauthorised uint64 // of those, without a valid signature or token
	Events       uint64 // events confirmed to their senders
	Refused      uint64 // events that can never run
	Unfinished   uint64 // events that their senders must send again
}

// NewHandler returns a handler. The error wraps [ErrConfig].
func NewHandler(cfg HandlerConfig) (*Handler, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	h := &Handler{
		cfg:      cfg,
		guard:    newGuard(cfg.Keys, cfg.Tokens, cfg.MaxSkew),
		refusals: httpauth.NewRefusals(cfg.Logger, "backup: request refused"),
		intake:   &intake{most: cfg.MaxReadBytes},
		slots:    httpauth.NewSlots(cfg.MaxOpen, cfg.MaxOpenBytes, cfg.Share),
		limiters: []*rate.Limiter{newLimiter(cfg.Rate, cfg.MaxEvents)},
	}
	h.sinkErrors = loglimit.Limit{Lines: 1, Every: 10 * time.Second}
	for range max(h.guard.senders(), 1) {
		h.limiters = append(h.limiters, newLimiter(cfg.Rate*cfg.Share, cfg.MaxEvents))
	}
	return h, nil
}

// newLimiter returns a limiter of events per second, with bursts of at least one
// request.
func newLimiter(perSecond float64, maxEvents int) *rate.Limiter {
	limit, burst := rate.Limit(perSecond), max(maxEvents, int(min(perSecond, math.MaxInt32)))
	if math.IsInf(perSecond, 1) {
		limit = rate.Inf
	}
	return rate.NewLimiter(limit, burst)
}

// Stats returns the counts at this moment.
func (h *Handler) Stats() HandlerStats {
	return HandlerStats{
		Reading:      h.intake.count(),
		Open:         h.slots.Open(),
		Requests:     h.stats.requests.Load(),
		TurnedAway:   h.stats.turnedAway.Load(),
		Unauthorised: h.refusals.Count(),
		Events:       h.stats.events.Load(),
		Refused:      h.stats.refused.Load(),
		Unfinished:   h.stats.unfinished.Load(),
	}
}

// refusal is the answer to a request that is refused before any event was offered.
type refusal struct {
	status int
	code   string
	err    error
	event  *int          // index of the event at fault
	after  time.Duration // for Retry-After
}

// ServeHTTP offers the events of a request; see the package documentation for the
// protocol.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.stats.requests.Add(1)
	if no := h.serve(w, r); no != nil {
		h.stats.turnedAway.Add(1)
		h.refuse(w, r, no)
	}
}

// serve works in the order in which a request earns trust: it checks the header,
// reads the body and verifies the sender, and only then takes a slot, of which
// there is a limited number.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) *refusal {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readSlack)) // also for a body that nobody reads
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return &refusal{status: http.StatusMethodNotAllowed, code: "bad_method", err: errors.New("use POST")}
	}
	verify, err := h.guard.admit(r.Header.Get("Authorization"))
	if err != nil {
		return h.unauthorised(w, r, err)
	}
	body, who, no := h.receive(w, r, verify)
	if no != nil {
		return no
	}
	_ = control.SetReadDeadline(time.Time{}) // or the connection would end while the events run
	size := int64(len(body))
	if !h.slots.Take(who, size) {
		return h.busy()
	}
	defer func() { h.slots.Release(who, size) }()
	events, inMemory, err := decodeRequest(body, h.cfg.MaxEvents, h.cfg.maxInMemory())
	if err != nil {
		return malformed(err)
	}
	if more := inMemory - size; more > 0 {
		if !h.slots.Grow(who, more) {
			return h.busy()
		}
		size += more
	}
	if wait := h.overRate(who, len(events)); wait > 0 {
		return &refusal{status: http.StatusTooManyRequests, code: codeTooMany, after: wait,
			err: fmt.Errorf("more than %v events a second", h.cfg.Rate)}
	}
	return h.take(w, r, events)
}

func (h *Handler) busy() *refusal {
	return &refusal{status: http.StatusServiceUnavailable, code: codeBusy, after: time.Second,
		err: fmt.Errorf("%d requests are being served", h.slots.Open())}
}

func (h *Handler) unauthorised(w http.ResponseWriter, r *http.Request, err error) *refusal {
	h.refusals.Add(r, err)
	w.Header()["Www-Authenticate"] = h.guard.challenge()
	return &refusal{status: http.StatusUnauthorized, code: codeUnauthorised, err: err}
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

// overRate returns how long a sender must wait with n events; 0 if they are
// accepted now.
func (h *Handler) overRate(who, n int) (wait time.Duration) {
	now := time.Now()
	var reserved []*rate.Reservation
	for _, limiter := range []*rate.Limiter{h.limiters[0], h.limiters[1+who]} {
		r := limiter.ReserveN(now, n)
		reserved = append(reserved, r)
		wait = max(wait, r.DelayFrom(now))
	}
	if wait > 0 {
		for _, r := range reserved {
			r.CancelAt(now)
		}
	}
	return wait
}

// take offers the events and answers once their outcomes are known.
func (h *Handler) take(w http.ResponseWriter, r *http.Request, events []*ordering.Event) *refusal {
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.Wait)
	defer cancel()
	p := newPost(len(events))
	if offered, err := p.offer(ctx, h.cfg.Sink, events); err != nil && ctx.Err() == nil {
		if ok, more := h.sinkErrors.Take(); ok {
			h.cfg.Logger.Error("backup: the sink accepts no events", "err", err, "more_since_last", more)
		}
		if offered == 0 {
			return &refusal{status: http.StatusServiceUnavailable, code: codeUnavailable, after: time.Second,
				err: errors.New("no events are accepted now; the receiver has logged the reason")}
		}
	}
	results := p.wait(ctx)
	h.count(results)
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(h.cfg.WriteTimeout))
	defer func() {
		_ = control.Flush()
		_ = control.SetWriteDeadline(time.Time{}) // the next answer has its own
	}()
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
	h.cfg.Logger.Debug("backup: request turned away", "from", r.RemoteAddr, "code", no.code, "err", message(no.err))
	if no.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(no.after.Seconds()))))
	}
	body, err := json.Marshal(errorBody{Version, errorText{no.code, message(no.err), no.event}})
	if err != nil {
		panic(err) // strings and numbers only
	}
	write(w, no.status, body)
}

// write writes a response, with its length, so that the sender notices if it is
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
