package httpreplay_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/httpreplay"
)

const good = "from=1&stream=order%2F7&to=3&version=1"

// Requests that are not of the protocol are refused with a code and a message
// that says what is wrong, before the source is asked.
func TestBadRequests(t *testing.T) {
	server := serve(t, httpreplay.ServerConfig{Public: true, Source: replay.SourceFunc(
		func(context.Context, ordering.Range) (replay.Answer, error) {
			t.Error("the source was asked")
			return replay.Answer{}, nil
		})})
	for _, c := range []struct {
		query, code, message string
	}{
		{"", "bad_request", `parameter \"version\" occurs 0 times`},
		{"from=1&stream=order%2F7&to=3", "bad_request", `parameter \"version\" occurs 0 times`},
		{"from=1&stream=order%2F7&to=3&version=2", "bad_version", `the request is of \"2\", the server of 1`},
		{"anything=at+all&version=7", "bad_version", `of \"7\"`},
		{good + "&from=2", "bad_request", `\"from\" occurs 2 times`},
		{good + "&limit=2", "bad_request", "parameters other than"},
		{good + "&before=0", "bad_request", `\"before\" is [\"0\"]`},
		{good + "&before=", "bad_request", `\"before\" is`},
		{good + "&before=2&before=2", "bad_request", `\"before\" is`},
		{good + "&epoch=2&before=65536", "bad_request", `\"before\" is`},
		{"from=&stream=order&to=3&version=1", "bad_request", `\"from\" is empty`},
		{"from=1&stream=&to=3&version=1", "bad_request", `\"stream\" is empty`},
		{"from=0&stream=order&to=3&version=1", "bad_request", `\"from\" is \"0\"`},
		{"from=-1&stream=order&to=3&version=1", "bad_request", `\"from\" is \"-1\"`},
		{"from=1&stream=order&to=9223372036854775808&version=1", "bad_request", `\"to\" is`},
		{"from=4&stream=order&to=3&version=1", "bad_request", "from is 4, after to, 3"},
		{"from=1&stream=a%2F%2Fb&to=3&version=1", "bad_request", "segment"},
		{"from=1&stream=a%252&to=3&version=1", "bad_request", "a%2"},
		{"from=1;to=2", "bad_request", "semicolon"},
		{"from=1&stream=" + strings.Repeat("x", 17<<10) + "&to=3&version=1", "bad_request", "at most 16384 are allowed"},
	} {
		status, body := get(t, server, http.MethodGet, c.query, "")
		assert.Equal(t, http.StatusBadRequest, status, c.query)
		assert.Contains(t, body, `{"version":1,"error":{"code":"`+c.code+`","message":"`, c.query)
		assert.Contains(t, body, c.message, c.query)
	}
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		status, body := get(t, server, method, good, "")
		assert.Equal(t, http.StatusMethodNotAllowed, status)
		assert.Contains(t, body, "bad_method")
	}
}

// What the source says becomes a status; what went wrong in it is for the
// server's log only.
func TestSourceErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{fmt.Errorf("order/7: %w", replay.ErrNotRetained), http.StatusGone, "not_retained"},
		{fmt.Errorf("order/7: %w", replay.ErrNotAssigned), http.StatusNotFound, "not_assigned"},
		{errors.New("password wrong"), http.StatusInternalServerError, "failed"},
		{dispatcher.Permanent(errors.New("password wrong")), http.StatusInternalServerError, "failed"},
		{replay.RetryAfter(errors.New("password wrong"), 1500*time.Millisecond), http.StatusServiceUnavailable, "unavailable"},
	} {
		var log bytes.Buffer
		server := serve(t, httpreplay.ServerConfig{
			Public: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Source: replay.SourceFunc(func(context.Context, ordering.Range) (replay.Answer, error) {
				return replay.Answer{}, c.err
			}),
		})
		status, body := get(t, server, http.MethodGet, good, "")
		assert.Equal(t, c.status, status)
		assert.Contains(t, body, `"code":"`+c.code+`"`)
		assert.NotContains(t, body, "password")
		server.Close() // after it, all is logged
		assert.Equal(t, strings.Contains(c.err.Error(), "password"), strings.Contains(log.String(), "password"))
	}
}

// A source that takes too long is given up by the server.
func TestSourceHangs(t *testing.T) {
	server := serve(t, httpreplay.ServerConfig{Public: true, Timeout: 20 * time.Millisecond, Source: replay.SourceFunc(
		func(ctx context.Context, asked ordering.Range) (replay.Answer, error) {
			<-ctx.Done()
			return replay.Answer{}, ctx.Err()
		})})
	status, body := get(t, server, http.MethodGet, good, "")
	assert.Equal(t, http.StatusGatewayTimeout, status)
	assert.Contains(t, body, "the source took longer than 20ms")
}

// By default a public server serves many requests at a time.
func TestManyRequests(t *testing.T) {
	const many = 16
	var open atomic.Int64
	all := make(chan struct{})
	server := serve(t, httpreplay.ServerConfig{Public: true, Source: replay.SourceFunc(
		func(ctx context.Context, _ ordering.Range) (replay.Answer, error) {
			if open.Add(1) == many {
				close(all)
			}
			select {
			case <-all:
				return replay.Answer{}, nil
			case <-ctx.Done():
				return replay.Answer{}, ctx.Err()
			}
		})})
	c := client(t, server, httpreplay.ClientConfig{})
	var clients errgroup.Group
	for range many {
		clients.Go(func() error {
			_, err := c.Fetch(t.Context(), ordering.Range{Stream: order, From: 1, To: 2})
			return err
		})
	}
	require.NoError(t, clients.Wait())
}

// Beyond MaxOpen, requests are told to come again.
func TestTooManyRequests(t *testing.T) {
	begun, end := make(chan bool), make(chan bool)
	server := serve(t, httpreplay.ServerConfig{Public: true, MaxOpen: 1, Timeout: time.Minute, Source: replay.SourceFunc(
		func(context.Context, ordering.Range) (replay.Answer, error) {
			begun <- true
			<-end
			return replay.Answer{}, nil
		})})
	c := client(t, server, httpreplay.ClientConfig{})
	first := make(chan error)
	go func() {
		_, err := c.Fetch(t.Context(), ordering.Range{Stream: order, From: 1, To: 1})
		first <- err
	}()
	<-begun
	_, err := c.Fetch(t.Context(), ordering.Range{Stream: order, From: 2, To: 2})
	require.ErrorContains(t, err, "status 429: too_many: 1 requests are being served")
	assert.Equal(t, time.Second, replay.RetryAfterOf(err))
	assert.False(t, dispatcher.IsPermanent(err))
	close(end)
	require.NoError(t, <-first)
}

// An event that cannot be sent is named if it is the one to be sent next; what
// comes before it is sent.
func TestEventsThatCannotBeSent(t *testing.T) {
	for name, spoil := range map[string]func(e *ordering.Event){
		`event "e-3" is 2`:   func(e *ordering.Event) { e.Payload = make([]byte, 2000) },
		`is not UTF-8`:       func(e *ordering.Event) { e.Headers = map[string]string{"a": "\xff"} },
		`event "e-3": json:`: func(e *ordering.Event) { e.Time = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		var log bytes.Buffer
		events := logOf(5)
		spoil(events.streams[order].events[2])
		server := serve(t, httpreplay.ServerConfig{Public: true, Source: events, MaxBytes: 2000, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		c := client(t, server, httpreplay.ClientConfig{})
		a, err := c.Fetch(t.Context(), ordering.Range{Stream: order, From: 1, To: 5})
		require.NoError(t, err)
		assert.Len(t, a.Events, 2)
		_, err = c.Fetch(t.Context(), ordering.Range{Stream: order, From: 3, To: 5})
		require.Error(t, err)
		assert.Equal(t, strings.Contains(name, "is 2"), dispatcher.IsPermanent(err))
		server.Close()
		assert.Contains(t, strings.ReplaceAll(log.String(), `\"`, `"`), name)
	}
}

func TestBadServerConfig(t *testing.T) {
	_, err := httpreplay.NewServer(httpreplay.ServerConfig{})
	require.ErrorIs(t, err, httpreplay.ErrConfig)
	assert.ErrorContains(t, err, "Source is nil")
	assert.ErrorContains(t, err, "Keys is empty: give at least one, or set Public")
	short := httpreplay.Key{ID: "a b", Secret: []byte("short")}
	_, err = httpreplay.NewServer(httpreplay.ServerConfig{Public: true, Keys: []httpreplay.Key{short, newKey, newKey, {ID: "a", Secret: []byte("short")}},
		MaxSkew: -1, MaxEvents: -1, MaxBytes: -1, MaxOpen: -1, Share: -1, Timeout: -1, WriteTimeout: -1})
	require.ErrorIs(t, err, httpreplay.ErrConfig)
	for _, problem := range []string{"Keys and Public", `Keys[0]: key ID "a b"`, `Keys[2]: ID "2026"`, "the secret is 5 bytes",
		"MaxSkew", "MaxEvents", "MaxBytes", "MaxOpen", "Share", "Timeout is", "WriteTimeout"} {
		assert.ErrorContains(t, err, problem)
	}
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %s", newKey, newKey, newKey, newKey), "fedcba", "secrets stay out of logs")
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("uses", "key", newKey)
	assert.Contains(t, log.String(), newKey.String())
	assert.NotContains(t, log.String(), base64.StdEncoding.EncodeToString(newKey.Secret))
}

// A client that goes away ends the request to the source.
func TestClientGoesAway(t *testing.T) {
	asked, ended := make(chan bool), make(chan error)
	server := serve(t, httpreplay.ServerConfig{Public: true, Timeout: time.Hour, Source: replay.SourceFunc(
		func(ctx context.Context, _ ordering.Range) (replay.Answer, error) {
			asked <- true
			<-ctx.Done()
			ended <- ctx.Err()
			return replay.Answer{}, ctx.Err()
		})})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	_, err := client(t, server, httpreplay.ClientConfig{}).Fetch(ctx, ordering.Range{Stream: order, From: 1, To: 1})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, <-ended, context.Canceled)
}
