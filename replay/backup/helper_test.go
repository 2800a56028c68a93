package backup_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/backup"
)

var (
	order  = lockkeys.Must("order", "7")
	oldKey = backup.Key{ID: "2025", Secret: []byte("0123456789abcdef0123456789abcdef")}
	newKey = backup.Key{ID: "2026", Secret: []byte("fedcba9876543210fedcba9876543210")}
	token  = backup.Token("a-token-of-the-right-length-12345")

	errDead = errors.New("connection refused")
)

// event returns event n of the stream order.
func event(n uint64) *ordering.Event {
	return &ordering.Event{
		ID: fmt.Sprintf("e-%d", n), Type: "Paid", Payload: fmt.Appendf(nil, "payload %d", n),
		Positions: []ordering.Position{{Stream: order, Number: n}},
	}
}

func events(numbers ...uint64) (list []*ordering.Event) {
	for _, n := range numbers {
		list = append(list, event(n))
	}
	return list
}

// journal is a handler of events that keeps the numbers that it has handled, by
// stream, in order.
type journal struct {
	mu      sync.Mutex
	numbers map[lockkeys.Key][]uint64
}

func (j *journal) handle(_ context.Context, job ordering.Job[*ordering.Event]) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.numbers == nil {
		j.numbers = map[lockkeys.Key][]uint64{}
	}
	for _, p := range job.Event.Positions {
		j.numbers[p.Stream] = append(j.numbers[p.Stream], p.Number)
	}
	return nil
}

func (j *journal) of(stream lockkeys.Key) []uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]uint64(nil), j.numbers[stream]...)
}

// sequencer makes one on the memory store whose effects are the journal's.
func sequencer(t testing.TB, cfg ordering.Config[*ordering.Event]) (*ordering.Sequencer[*ordering.Event], *journal) {
	t.Helper()
	j := &journal{}
	if cfg.Store == nil {
		cfg.Store = ordering.NewMemory()
	}
	if cfg.Handler == nil {
		cfg.Handler = j.handle
	}
	seq, err := ordering.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = seq.Close() })
	return seq, j
}

// sinkFunc is a function that is a sink.
type sinkFunc func(ctx context.Context, e *ordering.Event, done ordering.Done) error

func (f sinkFunc) Offer(ctx context.Context, e *ordering.Event, done ordering.Done) error {
	return f(ctx, e, done)
}

// applies is a sink that has applied what it is offered.
var applies = sinkFunc(func(_ context.Context, e *ordering.Event, done ordering.Done) error {
	done(e, ordering.Outcome{Result: ordering.Applied})
	return nil
})

func handler(t testing.TB, cfg backup.HandlerConfig) *backup.Handler {
	t.Helper()
	if cfg.Keys == nil && cfg.Tokens == nil && !cfg.Public {
		cfg.Keys = []backup.Key{newKey}
	}
	h, err := backup.NewHandler(cfg)
	require.NoError(t, err)
	return h
}

// serve runs a handler on a loopback port.
func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

func client(t testing.TB, server *httptest.Server, cfg backup.ClientConfig) *backup.Client {
	t.Helper()
	if cfg.URL == "" {
		cfg.URL = server.URL + "/events"
	}
	if cfg.Key.ID == "" && cfg.Token == "" {
		cfg.Key = newKey
	}
	c, err := backup.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// post makes a request by hand, without authorisation, and returns the
// response and its body.
func post(t testing.TB, h http.Handler, body string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/events", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return ask(t, h, r)
}

func ask(t testing.TB, h http.Handler, r *http.Request) (*http.Response, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	response := w.Result()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, "application/json", response.Header.Get("Content-Type"))
	require.Equal(t, "no-store", response.Header.Get("Cache-Control"))
	return response, string(body)
}

// soon waits for something that other goroutines bring about. Its deadline is for a
// test that hangs.
func soon(t testing.TB, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, 5*time.Minute, time.Millisecond, what)
}
