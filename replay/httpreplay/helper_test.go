package httpreplay_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/httpreplay"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	_ = flag.Set("rapid.nofailfile", "true")
	flag.Parse()
	goleak.VerifyTestMain(m)
}

var (
	order  = lockkeys.Must("order", "7")
	oldKey = httpreplay.Key{ID: "2025", Secret: []byte("0123456789abcdef0123456789abcdef")}
	newKey = httpreplay.Key{ID: "2026", Secret: []byte("fedcba9876543210fedcba9876543210")}
)

// memoryLog is a producer's event log in memory: of each stream the numbers
// up to pruned are not kept any more, those of rolled back transactions never
// existed, and those after the last event are not assigned yet.
type memoryLog struct {
	streams map[lockkeys.Key]*memoryStream
}

type memoryStream struct {
	events []*ordering.Event // event n at index n-1; nil for one that never existed
	pruned uint64
}

// logOf makes a log with the events 1..n of the stream order.
func logOf(n uint64) *memoryLog {
	s := &memoryStream{}
	for i := uint64(1); i <= n; i++ {
		s.events = append(s.events, &ordering.Event{
			ID: fmt.Sprintf("e-%d", i), Payload: fmt.Appendf(nil, "payload %d", i),
			Positions: []ordering.Position{{Stream: order, Number: i}},
		})
	}
	return &memoryLog{streams: map[lockkeys.Key]*memoryStream{order: s}}
}

func (l *memoryLog) Fetch(ctx context.Context, asked ordering.Range) (a replay.Answer, err error) {
	if err := ctx.Err(); err != nil {
		return a, err
	}
	s := l.streams[asked.Stream]
	if s == nil || asked.From > uint64(len(s.events)) {
		return a, replay.ErrNotAssigned
	}
	if asked.To <= s.pruned {
		return a, replay.ErrNotRetained
	}
	for n := max(asked.From, s.pruned+1); n <= min(asked.To, uint64(len(s.events))); n++ {
		if e := s.events[n-1]; e != nil {
			a.Events = append(a.Events, e)
		} else {
			a.NoSuch = append(a.NoSuch, ordering.Range{Stream: asked.Stream, From: n, To: n})
		}
	}
	return a, nil
}

// serve runs a server on a loopback port.
func serve(t testing.TB, cfg httpreplay.ServerConfig) *httptest.Server {
	t.Helper()
	if cfg.Keys == nil && !cfg.Public {
		cfg.Keys = []httpreplay.Key{newKey}
	}
	handler, err := httpreplay.NewServer(cfg)
	require.NoError(t, err)
	return serveHandler(t, handler)
}

func serveHandler(t testing.TB, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func client(t testing.TB, server *httptest.Server, cfg httpreplay.ClientConfig) *httpreplay.Client {
	t.Helper()
	if cfg.URL == "" {
		cfg.URL = server.URL + "/replay"
	}
	if cfg.Key.ID == "" {
		cfg.Key = newKey
	}
	cfg.HTTP = server.Client()
	c, err := httpreplay.NewClient(cfg)
	require.NoError(t, err)
	return c
}

// get makes a request by hand and returns the status and the body.
func get(t testing.TB, server *httptest.Server, method, query, authorization string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+"?"+query, nil)
	require.NoError(t, err)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	response, err := server.Client().Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, "application/json", response.Header.Get("Content-Type"))
	require.Equal(t, "no-store", response.Header.Get("Cache-Control"))
	return response.StatusCode, string(body)
}
