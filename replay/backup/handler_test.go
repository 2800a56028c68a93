package backup_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/backup"
)

const goodEvent = `{"positions":[{"stream":"order/7","number":1}]}`

// Requests that are not of the protocol are refused with a code and a message
// that says what is wrong, and nothing of them is offered.
func TestBadRequests(t *testing.T) {
	h := handler(t, backup.HandlerConfig{Public: true, MaxEvents: 3, MaxBytes: 500, Sink: sinkFunc(
		func(context.Context, *ordering.Event, ordering.Done) error {
			t.Error("an event was offered")
			return nil
		})})
	request := func(events ...string) string {
		return `{"version":1,"events":[` + strings.Join(events, ",") + `]}`
	}
	for _, c := range []struct {
		body          string
		status        int
		code, message string
	}{
		{``, 400, "bad_request", "unexpected end of JSON"},
		{`[]`, 400, "bad_request", "cannot unmarshal array"},
		{`{"version":1,"events":[`, 400, "bad_request", "unexpected end of JSON"},
		{`{"events":[` + goodEvent + `]}`, 400, "bad_request", "no version"},
		{`{"version":1}`, 400, "bad_request", "events is not an array"},
		{`{"version":1,"events":{}}`, 400, "bad_request", "events is not an array"},
		{`{"version":1,"events":null}`, 400, "bad_request", "events is not an array"},
		{request(), 400, "bad_request", "events is empty"},
		{request(goodEvent) + `{}`, 400, "bad_request", "after top-level value"},
		{`{"version":1,"event":[` + goodEvent + `]}`, 400, "bad_request", `unknown field "event"`},
		{"{\"version\":1,\"events\":[{\"id\":\"\xff\"}]}", 400, "bad_request", "not UTF-8"},
		{`{"version":2,"events":[]}`, 400, "bad_version", "the request is of 2, the receiver of 1"},
		{`{"version":2,"batch":[{"a":1}]}`, 400, "bad_version", "the request is of 2"},
		{`{"version":1,"events":[],"events":[` + goodEvent + `]}`, 400, "bad_request", `"events" occurs twice`},
		{request(`{"positions":[{"stream":"a","number":1}],"positions":[{"stream":"b","number":1}]}`), 400, "bad_request", `"positions" occurs twice`},
		{request(`{"Positions":[{"stream":"a","number":1}]}`), 400, "bad_request", `"Positions" has other characters`},
		{request(`{"id":"\ud83d","positions":[{"stream":"a","number":1}]}`), 400, "bad_request", "half a surrogate pair"},
		{request(`{"positions":[{"stream":"a\udc00","number":1}]}`), 400, "bad_request", "half a surrogate pair"},
		{request(goodEvent, `null`), 400, "bad_event", "events[1]: null"},
		{request(goodEvent, goodEvent, `{}`), 400, "bad_event", `events[2]: ordering: event "": no position`},
		{request(`{"positions":[{"stream":"order/7","number":0}]}`), 400, "bad_event", "number is not from 1"},
		{request(`{"positions":[{"stream":"order/7","number":-1}]}`), 400, "bad_event", "events[0]"},
		{request(`{"positions":[{"stream":"a//b","number":1}]}`), 400, "bad_event", "a//b"},
		{request(`{"positions":[{"stream":"a","number":1},{"stream":"a","number":2}]}`), 400, "bad_event", "two positions on one stream"},
		{request(`{"id":"a\u0000","positions":[{"stream":"a","number":1}]}`), 400, "bad_event", "NUL byte"},
		{request(`{"header":{"a":"b"},"positions":[{"stream":"a","number":1}]}`), 400, "bad_event", `unknown field "header"`},
		{request(`{"payload":"?","positions":[{"stream":"a","number":1}]}`), 400, "bad_event", "base64"},
		{request(goodEvent, goodEvent, goodEvent, goodEvent), 413, "too_large", "more than 3 events"},
		{request(goodEvent) + strings.Repeat(" ", 500), 413, "too_large", "more than 500 bytes"},
	} {
		response, body := post(t, h, c.body)
		assert.Equal(t, c.status, response.StatusCode, c.body)
		var said struct {
			Version int
			Error   struct {
				Code, Message string
				Event         *int
			}
		}
		require.NoError(t, json.Unmarshal([]byte(body), &said))
		assert.Equal(t, 1, said.Version)
		assert.Equal(t, c.code, said.Error.Code, c.body)
		assert.Contains(t, said.Error.Message, c.message, c.body)
		assert.Equal(t, c.code == "bad_event", said.Error.Event != nil, c.body)
	}
	s := h.Stats()
	assert.Equal(t, s.Requests, s.TurnedAway)
	assert.Zero(t, s.Open)
}

// What a sender is told of its request is short, however much of that it quotes.
func TestRefusalsAreShort(t *testing.T) {
	h := handler(t, backup.HandlerConfig{Public: true, Sink: applies})
	long := strings.Repeat("a", 1<<20)
	for _, body := range []string{
		`{"version":1,"` + long + `":1}`,
		`{"version":1,"events":[{"` + long + `":1}]}`,
		`{"version":1,"events":[{"payload":"` + long + `?","positions":[]}]}`,
		`{"version":1,"events":[{"positions":[{"stream":"` + long + `//","number":1}]}]}`,
		`{"version":1,"events":[{"id":"` + long + `","positions":[]}]}`,
	} {
		response, answer := post(t, h, body)
		assert.Equal(t, http.StatusBadRequest, response.StatusCode)
		assert.Less(t, len(answer), 8<<10)
	}
}

func TestBadMethodsAndTypes(t *testing.T) {
	h := handler(t, backup.HandlerConfig{Public: true, Sink: applies, MaxBytes: 100})
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		response, body := ask(t, h, httptest.NewRequestWithContext(t.Context(), method, "/", nil))
		assert.Equal(t, http.StatusMethodNotAllowed, response.StatusCode)
		assert.Equal(t, "POST", response.Header.Get("Allow"))
		assert.Contains(t, body, "bad_method")
	}
	request := func(kind string) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"version":1,"events":[`+goodEvent+`]}`))
		r.Header.Set("Content-Type", kind)
		return r
	}
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", ";"} {
		response, body := ask(t, h, request(kind))
		assert.Equal(t, http.StatusUnsupportedMediaType, response.StatusCode, kind)
		assert.Contains(t, body, "send application/json")
	}
	packed := request("application/json")
	packed.Header.Set("Content-Encoding", "gzip")
	response, body := ask(t, h, packed)
	assert.Equal(t, http.StatusUnsupportedMediaType, response.StatusCode)
	assert.Contains(t, body, `its encoding is \"gzip\"`)

	response, body = ask(t, h, request("application/json; charset=utf-8"))
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.Equal(t, `{"version":1,"results":[{"result":"applied"}]}`, body)

	long := request("application/json") // of a length that is not said
	long.Body, long.ContentLength = http.NoBody, -1
	long.Body = readCloser{strings.NewReader(strings.Repeat(" ", 101))}
	response, body = ask(t, h, long)
	assert.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
	assert.Contains(t, body, "more than 100 bytes")
	long.Body = readCloser{iotest.ErrReader(errors.New("connection reset"))}
	_, body = ask(t, h, long)
	assert.Contains(t, body, "cut off after 0 bytes")
}

type readCloser struct {
	r interface{ Read([]byte) (int, error) }
}

func (r readCloser) Read(p []byte) (int, error) { return r.r.Read(p) }
func (readCloser) Close() error                 { return nil }

// What becomes of an event is answered once it is durable, and not before.
func TestAnswersWaitForOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		seq, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
			Store: ordering.NewMemory(), GapTimeout: time.Hour,
			Handler: func(context.Context, ordering.Job[*ordering.Event]) error { <-release; return nil },
		})
		require.NoError(t, err)
		h := handler(t, backup.HandlerConfig{Public: true, Sink: seq})
		answered := make(chan string)
		send := func(numbers ...uint64) {
			list, err := json.Marshal(events(numbers...))
			assert.NoError(t, err)
			_, body := post(t, h, fmt.Sprintf(`{"version":1,"events":%s}`, list))
			answered <- body
		}
		go send(1)
		synctest.Wait()
		select {
		case body := <-answered:
			t.Fatal("answered before the handler has ended:", body)
		default:
		}
		assert.Equal(t, 1, h.Stats().Open)
		close(release)
		assert.Equal(t, `{"version":1,"results":[{"result":"applied"}]}`, <-answered)
		go send(1, 2, 1, 2)
		assert.Equal(t, `{"version":1,"results":[{"result":"duplicate"},{"result":"applied"},{"result":"duplicate"},{"result":"duplicate"}]}`, <-answered)

		// Number 4 waits for 3, and is pending after Wait.
		began := time.Now()
		go send(4)
		assert.Contains(t, <-answered, `{"version":1,"results":[{"result":"pending","message":`)
		assert.Equal(t, 5*time.Second, time.Since(began))
		go send(4) // the copy that joins the first one
		synctest.Wait()
		go send(3)
		assert.ElementsMatch(t, []string{<-answered, <-answered}, []string{
			`{"version":1,"results":[{"result":"applied"}]}`, `{"version":1,"results":[{"result":"duplicate"}]}`,
		})

		go send(6)
		synctest.Wait()
		require.NoError(t, seq.Close())
		assert.Contains(t, <-answered, `{"version":1,"results":[{"result":"unfinished","message":`)
		s := h.Stats()
		assert.Equal(t, backup.HandlerStats{Requests: 6, Events: 7, Unfinished: 2}, s)
	})
}

// The end of a request, when its sender has gone away, does not end the event.
func TestSenderGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, end := make(chan struct{}), make(chan struct{})
		var j journal
		seq, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
			Store: ordering.NewMemory(),
			Handler: func(ctx context.Context, job ordering.Job[*ordering.Event]) error {
				close(begun)
				<-end
				return errors.Join(ctx.Err(), j.handle(ctx, job))
			},
		})
		require.NoError(t, err)
		h := handler(t, backup.HandlerConfig{Public: true, Sink: seq})
		ctx, leave := context.WithCancel(t.Context())
		answered := make(chan string)
		go func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(`{"version":1,"events":[`+goodEvent+`]}`))
			r.Header.Set("Content-Type", "application/json")
			_, body := ask(t, h, r)
			answered <- body
		}()
		<-begun
		leave()
		assert.Contains(t, <-answered, "pending") // which nobody reads
		close(end)
		require.NoError(t, seq.Drain(t.Context()))
		assert.Equal(t, []uint64{1}, j.of(order))
		require.NoError(t, seq.Close())
	})
}

// What the sink says becomes a result of the event, or of the whole request if
// it took none; what is the matter with it is for the receiver's log only.
func TestSinks(t *testing.T) {
	outcome := func(r ordering.Result, err error) sinkFunc {
		return func(_ context.Context, e *ordering.Event, done ordering.Done) error {
			done(e, ordering.Outcome{Result: r, Err: err})
			return nil
		}
	}
	secret := errors.New("password wrong")
	var taken int
	for _, c := range []struct {
		name   string
		sink   sinkFunc
		status int
		want   string
	}{
		{"applied", outcome(ordering.Applied, nil), 200, `[{"result":"applied"},{"result":"applied"}]`},
		{"held", outcome(ordering.Held, nil), 200, `[{"result":"held"},{"result":"held"}]`},
		{"dead-lettered", outcome(ordering.DeadLettered, secret), 200, `[{"result":"dead-lettered"},{"result":"dead-lettered"}]`},
		{"refused", outcome(ordering.Refused, ordering.ErrEnded), 200, `{"result":"refused","message":"ordering: stream has ended before this number"}`},
		{"unfinished", outcome(ordering.Unfinished, secret), 200, `[{"result":"unfinished","message":`},
		{"too large for it", func(context.Context, *ordering.Event, ordering.Done) error {
			return fmt.Errorf("ordering: %w", dispatcher.ErrTooLarge)
		}, 200, `{"result":"refused","message":"ordering: dispatcher: message larger than MaxPendingBytes: raise the bound, or split the message"}`},
		{"closed", func(context.Context, *ordering.Event, ordering.Done) error { return ordering.ErrClosed }, 503, `"code":"unavailable"`},
		{"broken", func(context.Context, *ordering.Event, ordering.Done) error { return secret }, 503, `"code":"unavailable"`},
		{"ends in between", func(ctx context.Context, e *ordering.Event, done ordering.Done) error {
			if taken++; taken > 1 {
				return secret
			}
			return applies(ctx, e, done)
		}, 200, `[{"result":"applied"},{"result":"unfinished","message":"it was not accepted"}]`},
	} {
		var log bytes.Buffer
		h := handler(t, backup.HandlerConfig{Public: true, Sink: c.sink, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		response, body := post(t, h, `{"version":1,"events":[`+goodEvent+`,`+goodEvent+`]}`)
		assert.Equal(t, c.status, response.StatusCode, c.name)
		assert.Contains(t, body, c.want, c.name)
		assert.NotContains(t, body, "password", c.name)
		assert.Equal(t, c.name == "broken" || c.name == "ends in between", strings.Contains(log.String(), "password wrong"), c.name)
		if c.status == 503 {
			assert.Equal(t, "1", response.Header.Get("Retry-After"), c.name)
		}
	}
}

// A sequencer that has stopped for one event's sake refuses no other: its error
// wraps why it stopped, which is not the fault of what comes.
func TestStoppedSequencer(t *testing.T) {
	for _, cause := range []error{
		errors.New("disk full"),
		dispatcher.Permanent(errors.New("no such account")),
		&ordering.EventError{ID: "another", Reason: ordering.ErrNoPosition},
		dispatcher.Permanent(dispatcher.ErrTooLarge),
	} {
		seq, _ := sequencer(t, ordering.Config[*ordering.Event]{Failure: dispatcher.Stop, Handler: func(context.Context, ordering.Job[*ordering.Event]) error {
			return dispatcher.Permanent(cause)
		}})
		c := client(t, serve(t, handler(t, backup.HandlerConfig{Sink: seq, Wait: 50 * time.Millisecond})), backup.ClientConfig{})
		err := c.Publish(t.Context(), event(1))
		assert.False(t, dispatcher.IsPermanent(err), err)
		require.ErrorIs(t, seq.Err(), cause)
		err = c.Publish(t.Context(), event(2))
		require.ErrorIs(t, err, backup.ErrBusy)
		assert.False(t, dispatcher.IsPermanent(err), err)
	}
}

// A sink that is full for as long as a request may wait has taken nothing.
func TestSinkIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, backup.HandlerConfig{Public: true, Wait: time.Second, Sink: sinkFunc(
			func(ctx context.Context, _ *ordering.Event, _ ordering.Done) error {
				<-ctx.Done()
				return ctx.Err()
			})})
		response, body := post(t, h, `{"version":1,"events":[`+goodEvent+`]}`)
		assert.Equal(t, http.StatusOK, response.StatusCode)
		assert.Contains(t, body, `[{"result":"unfinished","message":"it was not accepted"}]`)
	})
}

// Beyond the bounds, senders are told when to come again.
func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const one = `{"version":1,"events":[` + goodEvent + `]}`
		release := make(chan struct{})
		h := handler(t, backup.HandlerConfig{Public: true, MaxOpen: 2, Sink: sinkFunc(
			func(_ context.Context, e *ordering.Event, done ordering.Done) error {
				go func() {
					<-release
					done(e, ordering.Outcome{Result: ordering.Applied})
				}()
				return nil
			})})
		answered := make(chan string)
		for range 2 {
			go func() {
				_, body := post(t, h, one)
				answered <- body
			}()
		}
		synctest.Wait()
		response, body := post(t, h, one)
		assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
		assert.Equal(t, "1", response.Header.Get("Retry-After"))
		assert.Contains(t, body, `"code":"busy","message":"2 requests are being served"`)
		close(release)
		for range 2 {
			assert.Contains(t, <-answered, "applied")
		}
		response, _ = post(t, h, one)
		assert.Equal(t, http.StatusOK, response.StatusCode)

		slow := handler(t, backup.HandlerConfig{Public: true, Sink: applies, Rate: 0.4, MaxEvents: 3})
		three := `{"version":1,"events":[` + goodEvent + `,` + goodEvent + `,` + goodEvent + `]}`
		response, _ = post(t, slow, three)
		assert.Equal(t, http.StatusOK, response.StatusCode)
		response, body = post(t, slow, three)
		assert.Equal(t, http.StatusTooManyRequests, response.StatusCode)
		assert.Contains(t, body, `"code":"too_many","message":"more than 0.4 events a second"`)
		assert.Equal(t, "8", response.Header.Get("Retry-After"), "3 events at 0.4 a second")
		time.Sleep(2500 * time.Millisecond)
		response, _ = post(t, slow, one)
		assert.Equal(t, http.StatusOK, response.StatusCode, "those that were refused have used up nothing")

		unbounded := handler(t, backup.HandlerConfig{Public: true, Sink: applies, Rate: math.Inf(1)})
		for range 100 {
			response, _ = post(t, unbounded, three)
			require.Equal(t, http.StatusOK, response.StatusCode)
		}
	})
}

func TestBadHandlerConfig(t *testing.T) {
	_, err := backup.NewHandler(backup.HandlerConfig{})
	require.ErrorIs(t, err, backup.ErrConfig)
	assert.ErrorContains(t, err, "Sink is nil")
	assert.ErrorContains(t, err, "Keys and Tokens are empty: give at least one, or set Public")
	_, err = backup.NewHandler(backup.HandlerConfig{Public: true,
		Keys:   []backup.Key{{ID: "a b", Secret: newKey.Secret}, newKey, newKey, {ID: "a", Secret: []byte("short")}},
		Tokens: []backup.Token{"short", "with blanks between the words of it"}, MaxSkew: -1, MaxEvents: -1, MaxBytes: -1, MaxOpen: -1,
		MaxOpenBytes: -1, MaxReadBytes: -2, Share: 1.5, Rate: math.NaN(), ReadTimeout: -1, MinRate: -1, Wait: -1, WriteTimeout: -1})
	require.ErrorIs(t, err, backup.ErrConfig)
	for _, problem := range []string{"Public is set, and Keys or Tokens", `Keys[0]: key ID "a b"`, `Keys[2]: ID "2026"`, "the secret is 5 bytes",
		"Tokens[0]: 5 characters", "Tokens[1]: use letters", "MaxSkew", "MaxEvents", "MaxBytes", "MaxOpen is", "MaxOpenBytes", "MaxReadBytes",
		"Share", "Rate is NaN", "ReadTimeout", "MinRate", "Wait is", "WriteTimeout"} {
		assert.ErrorContains(t, err, problem)
	}
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %s", newKey, newKey, newKey, newKey), "fedcba", "secrets stay out of logs")
	cfg := backup.HandlerConfig{Tokens: []backup.Token{token}}
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %s %q", token, cfg, cfg, token, token), "a-token")
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("uses", "key", newKey, "token", token)
	}
	assert.Equal(t, 2, strings.Count(log.String(), "key 2026"))
	for _, secret := range []string{string(newKey.Secret), base64.StdEncoding.EncodeToString(newKey.Secret), string(token)} {
		assert.NotContains(t, log.String(), secret)
	}
}
