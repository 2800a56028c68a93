package backup_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/backup"
)

// An event comes out as it went in.
func TestEventsArriveWhole(t *testing.T) {
	got := make(chan *ordering.Event, 1)
	server := serve(t, handler(t, backup.HandlerConfig{Sink: sinkFunc(
		func(ctx context.Context, e *ordering.Event, done ordering.Done) error {
			got <- e
			return applies(ctx, e, done)
		})}))
	sent := &ordering.Event{
		ID: "e-1", Type: "Transferred", Payload: []byte{0, 0xff, 1}, Headers: map[string]string{"trace": "a<b>&\u2028"},
		Positions: []ordering.Position{{Stream: order, Number: ordering.MaxNumber, End: true}, {Stream: order.Ancestor(1), Number: 1}},
		Time:      time.Date(2026, 11, 28, 1, 2, 3, 456_789_012, time.UTC), CorrelationID: "c", CausationID: "é",
	}
	require.NoError(t, client(t, server, backup.ClientConfig{}).Publish(t.Context(), sent))
	assert.Equal(t, sent, <-got)
}

// A batch has a result for each of its events.
func TestSend(t *testing.T) {
	seq, j := sequencer(t, ordering.Config[*ordering.Event]{GapTimeout: time.Hour})
	server := serve(t, handler(t, backup.HandlerConfig{Sink: seq, Wait: 20 * time.Millisecond}))
	c := client(t, server, backup.ClientConfig{})
	last := event(3)
	last.Positions[0].End = true
	errs, err := c.Send(t.Context(), []*ordering.Event{event(2), event(1), event(1), last, event(4), event(9)})
	require.NoError(t, err)
	require.Len(t, errs, 6)
	for i := range 4 {
		require.NoError(t, errs[i], i)
	}
	for _, err := range errs[4:] {
		var e *backup.ResultError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "refused", e.Result)
		assert.True(t, dispatcher.IsPermanent(err))
	}
	assert.ErrorContains(t, errs[4], `backup: event "e-4": refused: ordering: stream has ended before this number`)
	assert.Equal(t, []uint64{1, 2, 3}, j.of(order))

	other := &ordering.Event{Positions: []ordering.Position{{Stream: order.Ancestor(1), Number: 2}}}
	err = c.Publish(t.Context(), other)
	assert.ErrorContains(t, err, `event "order=2": pending`)
	assert.False(t, dispatcher.IsPermanent(err))

	errs, err = c.Send(t.Context(), nil)
	require.NoError(t, err)
	assert.Empty(t, errs)
}

// What is an event's own fault is permanent, whether the sender or the receiver
// finds it out.
func TestPermanentErrors(t *testing.T) {
	server := serve(t, handler(t, backup.HandlerConfig{Sink: applies, MaxBytes: 1 << 20, MaxEvents: 2}))
	c := client(t, server, backup.ClientConfig{})
	for _, e := range []*ordering.Event{nil, {ID: "no position"}} {
		err := c.Publish(t.Context(), e)
		assert.True(t, dispatcher.IsPermanent(err))
		assert.ErrorContains(t, err, "backup: events[0]: ordering:")
	}
	huge := event(1)
	huge.Payload = make([]byte, 2<<20)
	for range 5 {
		err := c.Publish(t.Context(), huge)
		require.ErrorIs(t, err, backup.ErrTooLarge)
		assert.True(t, dispatcher.IsPermanent(err))
	}
	_, err := c.Send(t.Context(), events(1, 2, 3))
	require.ErrorIs(t, err, backup.ErrTooLarge)
	assert.False(t, dispatcher.IsPermanent(err), "fewer of them may pass")

	strict := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"version":1,"error":{"code":"bad_event","message":"events[0]: no","event":0}}`)
	}))
	err = client(t, strict, backup.ClientConfig{}).Publish(t.Context(), event(1))
	require.ErrorIs(t, err, backup.ErrBadEvent)
	assert.True(t, dispatcher.IsPermanent(err))
}

// Whatever a server answers that is not of the protocol is an error that says
// what it is, and the event is to be sent again.
func TestStrangeAnswers(t *testing.T) {
	for _, c := range []struct {
		status     int
		kind, body string
		is         error
		message    string
	}{
		{200, "text/html", "<h1>Welcome</h1>", backup.ErrResponse, `its type is "text/html": is the URL that of a backup receiver?`},
		{200, "application/json", "", backup.ErrResponse, "EOF"},
		{200, "application/json", `{"results":[{"result":"applied"}]}`, backup.ErrResponse, "no version"},
		{200, "application/json", `{"version":1,"results":[]}`, backup.ErrResponse, "0 results for 1 events"},
		{200, "application/json", `{"version":1,"results":[{"result":"applied"},{"result":"applied"}]}`, backup.ErrResponse, "more than one result for each of 1 events"},
		{200, "application/json", `{"version":1,"results":[{"result":"applied","result":"refused"}]}`, backup.ErrResponse, `"result" occurs twice`},
		{200, "application/json", `{"version":1,"results":[{"result":"refused"}],"results":[{"result":"applied"}]}`, backup.ErrResponse, `"results" occurs twice`},
		{200, "application/json", `{"version":2,"results":[{"result":"applied"}]}`, backup.ErrVersion, "the response is of 2, the sender of 1"},
		{200, "application/json", `{"version":1,"results":[{"result":"maybe"}]}`, nil, `event "e-1": maybe: `},
		{200, "application/json", `{"version":1,"results":[{"result":""}]}`, nil, `event "e-1"`},
		{200, "application/json", `{"version":1,"results":[` + strings.Repeat(" ", 40<<10), backup.ErrResponse, "more than 32768 bytes"},
		{301, "text/html", "", backup.ErrResponse, `it redirects to "/elsewhere": use that URL`},
		{413, "text/html", "nginx", backup.ErrResponse, "status 413"},
		{429, "application/json", `{"version":1,"error":{"code":"too_many","message":"slowly"}}`, backup.ErrBusy, "too_many: slowly"},
		{400, "application/json", `{"version":1,"error":{"code":"bad_version","message":"old"}}`, backup.ErrVersion, "status 400: bad_version: old"},
		{500, "application/json", `{"version":1,"error":{"code":"new","message":"what?"}}`, nil, "status 500: new: what?"},
		{502, "application/json", `{"error":"bad gateway"}`, backup.ErrResponse, "status 502"},
		{503, "application/json", `{"version":1}`, backup.ErrResponse, "no error code"},
	} {
		server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.Header().Set("Retry-After", "7")
			if c.status == 301 {
				w.Header().Set("Location", "/elsewhere")
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		err := client(t, server, backup.ClientConfig{}).Publish(t.Context(), event(1))
		require.Error(t, err, c.body)
		if c.is != nil {
			require.ErrorIs(t, err, c.is, c.body)
		}
		assert.ErrorContains(t, err, c.message)
		assert.False(t, dispatcher.IsPermanent(err), c.body)
		var e *backup.Error
		if c.is == backup.ErrBusy {
			require.ErrorAs(t, err, &e)
			assert.Equal(t, 7*time.Second, e.RetryAfter)
		}
	}
}

// Requests end at their time-out, at their caller's, and when nobody listens.
func TestNoAnswer(t *testing.T) {
	never := make(chan struct{})
	server := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-never }))
	defer close(never)
	c := client(t, server, backup.ClientConfig{Timeout: 20 * time.Millisecond})
	err := c.Publish(t.Context(), event(1))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Publish(ctx, event(1)), context.Canceled)

	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	err = client(t, gone, backup.ClientConfig{}).Publish(t.Context(), event(1))
	var e *backup.Error
	require.ErrorAs(t, err, &e)
	assert.Zero(t, e.Status)
	assert.ErrorContains(t, err, "connection refused")
	assert.False(t, dispatcher.IsPermanent(err))
}

// A connection that was kept since the last outage and is dead by now costs no
// error.
func TestStaleConnections(t *testing.T) {
	server := serve(t, handler(t, backup.HandlerConfig{Sink: applies}))
	c := client(t, server, backup.ClientConfig{})
	for range 20 {
		require.NoError(t, c.Publish(t.Context(), event(1)))
		server.CloseClientConnections()
	}
}

// A redirect gets neither events nor signatures.
func TestRedirectsAreNotFollowed(t *testing.T) {
	thief := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("followed") }))
	server := serve(t, http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	err := client(t, server, backup.ClientConfig{Token: token, HTTP: server.Client()}).Publish(t.Context(), event(1))
	require.ErrorIs(t, err, backup.ErrResponse)
	assert.ErrorContains(t, err, thief.URL)
}

// Sender and receiver speak TLS by the caller's client and server, in both
// versions of HTTP, and a certificate that is not known ends the request.
func TestTLS(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		seq, j := sequencer(t, ordering.Config[*ordering.Event]{})
		protocol := make(chan string, 1)
		h := handler(t, backup.HandlerConfig{Sink: seq, Tokens: []backup.Token{token}})
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			protocol <- r.Proto
			h.ServeHTTP(w, r)
		}))
		server.EnableHTTP2 = http2
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		c := client(t, server, backup.ClientConfig{Token: token, HTTP: server.Client()})
		for n := uint64(1); n <= 3; n++ {
			require.NoError(t, c.Publish(t.Context(), event(n)))
			assert.Equal(t, map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[http2], <-protocol)
		}
		assert.Equal(t, []uint64{1, 2, 3}, j.of(order))
		err := client(t, server, backup.ClientConfig{Token: token}).Publish(t.Context(), event(4))
		assert.ErrorContains(t, err, "certificate")
		server.Close()
	}
}

func TestBadClientConfig(t *testing.T) {
	for url, problem := range map[string]string{
		"":                      "begins with https:// or http://",
		"ftp://a/b":             "begins with https:// or http://",
		"https://":              "begins with https:// or http://",
		"https://a/b?c=d":       "must have no query",
		"https://a:secret@b/c":  "URL has a user",
		"https://a/%zz":         "URL: parse",
		"https://a:secret@b?c=": "https://a:xxxxx@b?c=",
	} {
		_, err := backup.NewClient(backup.ClientConfig{URL: url})
		require.ErrorIs(t, err, backup.ErrConfig, url)
		assert.ErrorContains(t, err, problem)
		assert.NotContains(t, err.Error(), "secret@")
	}
	_, err := backup.NewClient(backup.ClientConfig{URL: "https://a", Key: backup.Key{ID: "a"}, Token: "short", Timeout: -1})
	for _, problem := range []string{"Key: key", "Key and Token are both set", "Token: 5 characters", "Timeout is -1ns"} {
		assert.ErrorContains(t, err, problem)
	}
}
