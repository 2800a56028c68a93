package httpreplay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/internal/httpauth"
	"github.com/interlock-go/interlock/internal/loglimit"
	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// ServerConfig configures a [Server]. Source is required, and Keys unless
// Public is set; the zero value of every other field means its default.
type ServerConfig struct {
	// Source has the events. It is asked for the requested ranges, of any width;
	// its answers are cut to the bounds below, and the clients request the rest.
	Source replay.Source
	// Keys are the accepted keys. Each gives access to all streams.
	Keys []Key
	// Public accepts requests of everybody, in place of Keys.
	Public bool
	// MaxSkew bounds the difference between the time of a signature and the
	// server's. Default: 1 minute.
	MaxSkew time.Duration

	// MaxEvents bounds the events of an answer, and the ranges of numbers that
	// never existed. Default: 1000.
	MaxEvents int
	// MaxBytes bounds the events of an answer by their size in JSON. It must be
	// a little less than the clients' MaxBytes. Default: 8 MiB.
	MaxBytes int
	// MaxOpen bounds the requests served at a time, of those with a valid
	// signature; further ones are told to try again after a second. Default: 64.
	MaxOpen int
	// Share is the part of MaxOpen that requests with one key may take, so that
	// one client leaves some for others, from 0 to 1. Default: 0.75, or 1 if
	// there is one key.
	Share float64
	// Timeout bounds a call of the source. Default: 5 s.
	Timeout time.Duration
	// WriteTimeout bounds the time for a client to read its answer, which counts
	// as being served. Default: 30 s.
	WriteTimeout time.Duration

	// Logger logs unauthorised requests, one in ten seconds, with their number,
	// and the source's errors, which clients do not see, ten in ten seconds.
	// Default: slog.Default().
	Logger *slog.Logger
}

func (c ServerConfig) withDefaults() ServerConfig {
	settings.Default(&c.MaxSkew, time.Minute)
	settings.Default(&c.MaxEvents, 1000)
	settings.Default(&c.MaxBytes, 8<<20)
	settings.Default(&c.MaxOpen, 64)
	settings.Default(&c.Share, httpauth.DefaultShare(len(c.Keys)))
	settings.Default(&c.Timeout, 5*time.Second)
	settings.Default(&c.WriteTimeout, 30*time.Second)
	c.Logger = safelog.New(c.Logger)
	return c
}

func (c ServerConfig) validate() error {
	var p settings.Problems
	p.Add(c.Source == nil, "Source is nil: give the source of the events")
	p.Add(len(c.Keys) == 0 && !c.Public, "Keys is empty: give at least one, or set Public")
	p.Add(len(c.Keys) > 0 && c.Public, "Keys and Public are both set: keep one")
	ids := map[string]bool{}
	for i, k := range c.Keys {
		err := k.validate()
		p.Add(err != nil, "Keys[%d]: %w", i, err)
		p.Add(ids[k.ID], "Keys[%d]: ID %q is that of an earlier one", i, k.ID)
		ids[k.ID] = true
	}
	p.Add(c.MaxSkew < 0, "MaxSkew is %v: it must not be negative", c.MaxSkew)
	p.Add(c.MaxEvents < 0, "MaxEvents is %d: it must not be negative", c.MaxEvents)
	p.Add(c.MaxBytes < 0, "MaxBytes is %d: it must not be negative", c.MaxBytes)
	p.Add(c.MaxOpen < 0, "MaxOpen is %d: it must not be negative", c.MaxOpen)
	p.Add(!(c.Share >= 0 && c.Share <= 1), "Share is %v: it must be from 0 to 1", c.Share)
	p.Add(c.Timeout < 0, "Timeout is %v: it must not be negative", c.Timeout)
	p.Add(c.WriteTimeout < 0, "WriteTimeout is %v: it must not be negative", c.WriteTimeout)
	return p.Err(ErrConfig)
}

// Server answers requests for events from a source. It is an [net/http.Handler]
// for any path, safe for concurrent use. There is nothing to close.
//
// Give its [net/http.Server] a ReadHeaderTimeout and a MaxHeaderBytes of 32 KiB or
// so, since a Server sees only complete requests. The number of connections must
// be bounded there too, or in front of it; connections without a key do not keep
// others from being served.
type Server struct {
	cfg      ServerConfig
	keys     []httpauth.Key
	slots    *httpauth.Slots
	refusals *httpauth.Refusals
	requests atomic.Uint64
	failed   atomic.Uint64
	failures loglimit.Limit // each request would be a line
}

var _ http.Handler = (*Server)(nil)

// ServerStats counts what a server has done since it was made.
type ServerStats struct {
	Open         int    // requests being served
	Requests     uint64 // requests received
	Unauthorised uint64 // of those, without a signature or with an invalid one
	Failed       uint64 // of those, not answered because the source failed
}

// NewServer returns a server. The error wraps [ErrConfig].
func NewServer(cfg ServerConfig) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg:      cfg,
		slots:    httpauth.NewSlots(cfg.MaxOpen, math.MaxInt64, cfg.Share),
		refusals: httpauth.NewRefusals(cfg.Logger, "httpreplay: request refused"),
		failures: loglimit.Limit{Lines: 10, Every: 10 * time.Second},
	}
	for _, k := range cfg.Keys {
		s.keys = append(s.keys, httpauth.Key(k))
	}
	return s, nil
}

// Stats returns the counts at this moment.
func (s *Server) Stats() ServerStats {
	return ServerStats{
		Open: s.slots.Open(), Requests: s.requests.Load(), Unauthorised: s.refusals.Count(), Failed: s.failed.Load(),
	}
}

// ServeHTTP answers a request; see the package documentation for the protocol.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.cfg.Timeout)) // for a body, which there should not be
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		refuse(w, http.StatusMethodNotAllowed, "bad_method", "use GET")
		return
	}
	asked, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		code := "bad_request"
		if errors.Is(err, ErrVersion) {
			code = codeVersion
		}
		refuse(w, http.StatusBadRequest, code, fmt.Sprintf("%.400s", err.Error()))
		return
	}
	key := 0
	if !s.cfg.Public {
		if key, err = verify(r.Header.Get("Authorization"), asked, s.keys, time.Now(), s.cfg.MaxSkew); err != nil {
			s.refusals.Add(r, err)
			w.Header().Set("WWW-Authenticate", httpauth.Scheme)
			refuse(w, http.StatusUnauthorized, codeUnauthorised, err.Error())
			return
		}
	}
	if !s.slots.Take(key, 0) {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, "too_many", fmt.Sprintf("%d requests are being served", s.slots.Open()))
		return
	}
	defer s.slots.Release(key, 0)
	// The server reads on, without a deadline, to notice when the client is gone.
	_ = control.SetReadDeadline(time.Time{})
	s.answer(w, r, asked)
}

// answer asks the source and writes its answer.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, asked ordering.Range) {
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer cancel()
	a, err := s.cfg.Source.Fetch(ctx, asked)
	var body []byte
	if err == nil {
		body, err = encodeAnswer(a, asked, s.cfg.MaxEvents, s.cfg.MaxBytes)
	}
	after := replay.RetryAfterOf(err)
	switch {
	case err == nil:
		s.write(w, body)
		return
	case r.Context().Err() != nil:
		return // nobody waits for it
	case errors.Is(err, replay.ErrNotRetained):
		refuse(w, http.StatusGone, codeNotRetained, err.Error())
		return
	case errors.Is(err, replay.ErrNotAssigned):
		refuse(w, http.StatusNotFound, codeNotAssigned, err.Error())
		return
	case errors.Is(err, ErrTooLarge):
		refuse(w, http.StatusInternalServerError, codeTooLarge, err.Error())
	case after > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
		refuse(w, http.StatusServiceUnavailable, "unavailable", "the source is to be asked later")
	case ctx.Err() != nil:
		refuse(w, http.StatusGatewayTimeout, "timeout", fmt.Sprintf("the source took longer than %v", s.cfg.Timeout))
	default:
		refuse(w, http.StatusInternalServerError, "failed", "the source failed; the server has logged the reason")
	}
	s.failed.Add(1)
	if ok, more := s.failures.Take(); ok {
		s.cfg.Logger.Error("httpreplay: no answer", "asked", fmt.Sprintf("%.200s", asked), "err", err, "more_since_last", more)
	}
}

// write writes an answer within WriteTimeout.
func (s *Server) write(w http.ResponseWriter, body []byte) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(s.cfg.WriteTimeout))
	write(w, http.StatusOK, body)
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{}) // the next answer has its own
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	body, err := json.Marshal(errorBody{Version, errorText{code, message}})
	if err != nil {
		panic(err) // strings and numbers only
	}
	write(w, status, body)
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
