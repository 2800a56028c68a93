package httpreplay_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/httpreplay"
)

// What the client makes of servers that are broken, busy, of another kind or
// of another version. Every error names the URL.
func TestOddResponses(t *testing.T) {
	const kind = "application/json"
	code := func(code string) string {
		return `{"version":1,"error":{"code":"` + code + `","message":"the reason"}}`
	}
	in10s := time.Now().Add(10 * time.Second).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		name       string
		status     int
		kind, body string
		header     string // of Retry-After or Location
		is         error
		text       string
		permanent  bool
		after      time.Duration // at most, if not 0
	}{
		{name: "truncated", status: 200, kind: kind, body: `{"version":1,"events":[{"id":"e`, is: httpreplay.ErrResponse, text: "cut off after"},
		{name: "empty", status: 200, kind: kind, is: httpreplay.ErrResponse},
		{name: "two values", status: 200, kind: kind, body: `{"version":1}{}`, is: httpreplay.ErrResponse},
		{name: "no version", status: 200, kind: kind, body: `{}`, is: httpreplay.ErrResponse, text: "no version"},
		{name: "another version", status: 200, kind: kind, body: `{"version":2,"events":"e-1 e-2"}`, is: httpreplay.ErrVersion, text: "the response is of 2, the client of 1", permanent: true},
		{name: "null event", status: 200, kind: kind, body: `{"version":1,"events":[null]}`, is: httpreplay.ErrResponse, text: "event 1 is null"},
		{name: "events are no array", status: 200, kind: kind, body: `{"version":1,"events":{"a":1}}`, is: httpreplay.ErrResponse, text: `"events": not an array`},
		{name: "bad key", status: 200, kind: kind, body: `{"version":1,"no_such":[{"stream":"a//b"}]}`, is: httpreplay.ErrResponse, text: `"no_such"`},
		{name: "negative number", status: 200, kind: kind, body: `{"version":1,"events":[{"positions":[{"stream":"a","number":-1}]}]}`, is: httpreplay.ErrResponse},
		{name: "a page", status: 200, kind: "text/html; charset=utf-8", body: "<html>", is: httpreplay.ErrResponse, text: "is the URL that of a replay server?"},
		{name: "no type", status: 200, kind: "-", body: `{"version":1}`, is: httpreplay.ErrResponse},
		{name: "too large", status: 200, kind: kind, body: `{"version":1,"events":[` + strings.Repeat(" ", 5000) + `]}`, is: httpreplay.ErrTooLarge, text: "MaxBytes, 5000", permanent: true},
		{name: "too many events", status: 200, kind: kind, body: `{"version":1,"events":[{},{},{},{}]}`, is: httpreplay.ErrTooLarge, text: "more than 3 events", permanent: true},
		{name: "no content", status: 204, kind: kind, is: httpreplay.ErrResponse},
		{name: "redirect", status: 302, kind: kind, header: "https://example.org/", is: httpreplay.ErrResponse, text: `redirects to "https://example.org/": use that URL`, permanent: true},
		{name: "bad request", status: 400, kind: kind, body: code("bad_request"), text: "status 400: bad_request: the reason", permanent: true},
		{name: "bad version", status: 400, kind: kind, body: code("bad_version"), is: httpreplay.ErrVersion, permanent: true},
		{name: "unauthorised", status: 401, kind: kind, body: code("unauthorised"), is: httpreplay.ErrUnauthorised, permanent: true},
		{name: "unauthorised by a proxy", status: 401, kind: "text/plain", body: "no", is: httpreplay.ErrResponse, permanent: true},
		{name: "no such page", status: 404, kind: "text/plain", body: "404 page not found", is: httpreplay.ErrResponse, permanent: true},
		{name: "not assigned", status: 404, kind: kind, body: code("not_assigned"), is: replay.ErrNotAssigned},
		{name: "request timeout", status: 408, kind: "text/plain", is: httpreplay.ErrResponse},
		{name: "not retained", status: 410, kind: kind, body: code("not_retained"), is: replay.ErrNotRetained},
		{name: "busy, in seconds", status: 429, kind: kind, body: code("too_many"), header: "7", text: "too_many", after: 7 * time.Second},
		{name: "busy, until", status: 429, kind: kind, body: code("too_many"), header: in10s, after: 10 * time.Second},
		{name: "busy, for ever", status: 503, kind: kind, body: code("unavailable"), header: "2000000000", after: time.Hour},
		{name: "busy, until long ago", status: 503, kind: kind, body: code("unavailable"), header: "Mon, 02 Jan 2006 15:04:05 GMT"},
		{name: "busy, nonsense", status: 503, kind: kind, body: code("unavailable"), header: "soon"},
		{name: "a proxy without its server", status: 502, kind: "text/html", body: "<html>", is: httpreplay.ErrResponse},
		{name: "failed", status: 500, kind: kind, body: code("failed"), text: "status 500: failed: the reason"},
		{name: "failed, no code", status: 500, kind: kind, body: `{"version":1}`, is: httpreplay.ErrResponse, text: "no error code"},
		{name: "one event too large", status: 500, kind: kind, body: code("too_large"), is: httpreplay.ErrTooLarge, permanent: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{c.kind}
				if c.status < 400 && c.header != "" {
					w.Header().Set("Location", c.header)
				} else if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			a, err := client(t, server, httpreplay.ClientConfig{MaxBytes: 5000, MaxEvents: 3}).Fetch(t.Context(), ordering.Range{Stream: order, From: 1, To: 2})
			require.Error(t, err)
			assert.Empty(t, a)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			assert.ErrorContains(t, err, server.URL+"/replay?from=1&stream=order%2F7&to=2")
			assert.ErrorContains(t, err, c.text)
			assert.Equal(t, c.permanent, dispatcher.IsPermanent(err))
			after := replay.RetryAfterOf(err)
			assert.LessOrEqual(t, after, c.after)
			assert.Equal(t, c.after > 0, after > 0)
			var e *httpreplay.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, c.status, e.Status)
		})
	}
}

// An answer without end is not read to its end.
func TestEndlessAnswer(t *testing.T) {
	server := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for err := error(nil); err == nil; {
			_, err = io.WriteString(w, strings.Repeat(" ", 1000))
		}
	}))
	_, err := client(t, server, httpreplay.ClientConfig{Timeout: time.Minute, MaxBytes: 1 << 20}).Fetch(t.Context(), ordering.Range{Stream: order, From: 1, To: 2})
	require.ErrorIs(t, err, httpreplay.ErrTooLarge)
}

// A body that ends before the length that was announced is an error.
func TestCutOff(t *testing.T) {
	server := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"version":1}`)
	}))
	_, err := client(t, server, httpreplay.ClientConfig{}).Fetch(t.Context(), ordering.Range{Stream: order, From: 1, To: 2})
	require.ErrorIs(t, err, httpreplay.ErrResponse)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.ErrorContains(t, err, "cut off after 13 bytes")
}

// A server that is not there, or does not answer, can be asked again.
func TestNoServer(t *testing.T) {
	server := serve(t, httpreplay.ServerConfig{Source: logOf(3)})
	c := client(t, server, httpreplay.ClientConfig{})
	server.Close()
	_, err := c.Fetch(t.Context(), ordering.Range{Stream: order, From: 1, To: 2})
	require.ErrorContains(t, err, "connection refused")
	assert.Equal(t, 1, strings.Count(err.Error(), server.URL), "the URL is there once")
	assert.False(t, dispatcher.IsPermanent(err))

	end := make(chan bool)
	silent := serveHandler(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	defer close(end)
	_, err = client(t, silent, httpreplay.ClientConfig{Timeout: 20 * time.Millisecond}).Fetch(t.Context(), ordering.Range{Stream: order, From: 1, To: 2})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.False(t, dispatcher.IsPermanent(err))
}

// A redirect is not followed, so that what a server was sent goes nowhere else.
func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere := serveHandler(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked elsewhere") }))
	server := serveHandler(t, http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	_, err := client(t, server, httpreplay.ClientConfig{}).Fetch(t.Context(), ordering.Range{Stream: order, From: 1, To: 2})
	require.ErrorContains(t, err, fmt.Sprintf("redirects to %q", elsewhere.URL))
}

func TestBadClientConfig(t *testing.T) {
	for url, problem := range map[string]string{
		"":                         "begins with https:// or http://",
		"replay.example.org":       "begins with https:// or http://",
		"ftp://example.org":        "begins with https:// or http://",
		"http://":                  "begins with https:// or http://",
		"http://a b/":              "URL: parse",
		"https://example.org/?a=b": "no query",
		"https://example.org/#a":   "no fragment",
		"https://u:pw@example.org": "has a user",
	} {
		_, err := httpreplay.NewClient(httpreplay.ClientConfig{URL: url})
		require.ErrorIs(t, err, httpreplay.ErrConfig, url)
		assert.ErrorContains(t, err, problem)
		assert.NotContains(t, err.Error(), "pw")
	}
	_, err := httpreplay.NewClient(httpreplay.ClientConfig{URL: "https://example.org",
		Key: httpreplay.Key{ID: "a"}, Timeout: -1, MaxBytes: -1, MaxEvents: -1})
	require.ErrorIs(t, err, httpreplay.ErrConfig)
	for _, problem := range []string{`key "a": the secret is 0 bytes`, "Timeout", "MaxBytes", "MaxEvents"} {
		assert.ErrorContains(t, err, problem)
	}
}

// TestConnectionsAreKept: many requests at a time, again and again, do not open a
// connection each.
func TestConnectionsAreKept(t *testing.T) {
	const atOnce, rounds = 32, 10
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"version":1,"no_such":[{"stream":"a","from":1,"to":1}]}`)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c, err := httpreplay.NewClient(httpreplay.ClientConfig{URL: server.URL})
	require.NoError(t, err)
	for range rounds {
		var wait sync.WaitGroup
		for range atOnce {
			wait.Go(func() {
				_, err := c.Fetch(t.Context(), ordering.Range{Stream: lockkeys.Must("a"), From: 1, To: 1})
				assert.NoError(t, err)
			})
		}
		wait.Wait()
	}
	assert.Less(t, int(opened.Load()), atOnce*rounds/3)
}
