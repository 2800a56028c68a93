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
	"time"

	"github.com/interlock-go/interlock/internal/httpauth"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// ServerConfig configures a [Server]. Source is required, and Keys unless
// Public is set; the zero value of every other field means its default.
type ServerConfig struct {
	// Source has the events. It is asked for ranges as they come, of any
	// width; what it answers is cut to the bounds below, and the rest is asked
	// for again.
	Source replay.Source
	// Keys are those whose signatures are accepted. Each of them may ask for
	// all streams.
	Keys []Key
	// Public lets everyone ask who can connect, in place of Keys.
	Public bool
	// MaxSkew is how far the time of a signature may be from the server's.
	// Default: 1 minute.
	MaxSkew time.Duration

	// MaxEvents bounds the events of an answer, and the ranges of numbers that
	// never existed. Default: 1000.
	MaxEvents int
	// MaxBytes bounds the events of an answer by their size in JSON. It must
	// be a little less than what the clients take. Default: 8 MiB.
	MaxBytes int
	// MaxOpen is how many requests are served at a time; more are told to
	// come again after a second. Default: 64.
	MaxOpen int
	// Timeout bounds how long the source may take. Default: 5 s.
	Timeout time.Duration

	// Logger is told of signatures that were refused and of the source's
	// errors, which clients are not told of. Default: slog.Default().
	Logger *slog.Logger
}

func (c ServerConfig) withDefaults() ServerConfig {
	settings.Default(&c.MaxSkew, time.Minute)
	settings.Default(&c.MaxEvents, 1000)
	settings.Default(&c.MaxBytes, 8<<20)
	settings.Default(&c.MaxOpen, 64)
	settings.Default(&c.Timeout, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c ServerConfig) validate() error {
	var p settings.Problems
	p.Add(c.Source == nil, "Source is nil")
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
	p.Add(c.Timeout < 0, "Timeout is %v: it must not be negative", c.Timeout)
	return p.Err(ErrConfig)
}

// Server answers requests for events from a source. It is an [net/http.Handler]
// for any path and may be used from any number of goroutines at once. There is
// nothing to close. Give the [net/http.Server] that it runs in a
// ReadHeaderTimeout and a WriteTimeout, against clients that dawdle.
type Server struct {
	cfg   ServerConfig
	keys  []httpauth.Key
	slots chan struct{} // holds one for each request that is served
}

var _ http.Handler = (*Server)(nil)

// NewServer returns a server. The error wraps [ErrConfig].
func NewServer(cfg ServerConfig) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, slots: make(chan struct{}, cfg.MaxOpen)}
	for _, k := range cfg.Keys {
		s.keys = append(s.keys, httpauth.Key(k))
	}
	return s, nil
}

// ServeHTTP answers a request; see the package's doc for the protocol.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		refuse(w, http.StatusBadRequest, code, err.Error())
		return
	}
	if !s.cfg.Public {
		if err := verify(r.Header.Get("Authorization"), asked, s.keys, time.Now(), s.cfg.MaxSkew); err != nil {
			s.cfg.Logger.Warn("httpreplay: request refused", "from", r.RemoteAddr, "asked", asked.String(), "error", err)
			w.Header().Set("WWW-Authenticate", httpauth.Scheme)
			refuse(w, http.StatusUnauthorized, codeUnauthorised, err.Error())
			return
		}
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, "too_many", fmt.Sprintf("%d requests are being served", s.cfg.MaxOpen))
		return
	}
	s.answer(w, r, asked)
}

// answer asks the source and writes what it says.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, asked ordering.Range) {
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer cancel()
	a, err := s.cfg.Source.Fetch(ctx, asked.Stream, asked.From, asked.To)
	var body []byte
	if err == nil {
		body, err = encodeAnswer(a, asked, s.cfg.MaxEvents, s.cfg.MaxBytes)
	}
	after := replay.RetryAfterOf(err)
	switch {
	case err == nil:
		write(w, http.StatusOK, body)
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
		refuse(w, http.StatusServiceUnavailable, "unavailable", "the source asks for patience")
	case ctx.Err() != nil:
		refuse(w, http.StatusGatewayTimeout, "timeout", fmt.Sprintf("the source took longer than %v", s.cfg.Timeout))
	default:
		refuse(w, http.StatusInternalServerError, "failed", "the source failed; its server has logged why")
	}
	s.cfg.Logger.Error("httpreplay: no answer", "asked", asked.String(), "error", err)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	body, err := json.Marshal(errorBody{Version, errorText{code, message}})
	if err != nil {
		panic(err) // strings and numbers only
	}
	write(w, status, body)
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
