package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/service"
	"github.com/interlock-go/interlock/examples/ledger/internal/web"
	"github.com/interlock-go/interlock/ordering"
)

// answering is a service that answers every message the same.
type answering struct {
	reply   book.Reply
	err     error
	stopped bool
}

func (a answering) Do(ctx context.Context, _ *book.Message) (book.Reply, error) {
	if a.err == nil && ctx.Err() != nil {
		return book.Reply{}, ctx.Err()
	}
	return a.reply, a.err
}

func (a answering) Stopped() bool { return a.stopped }

func ask(service answering, method, path string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRecorder()
	web.Handler(service, web.Config{Schema: "the schema"}).ServeHTTP(r, httptest.NewRequest(method, path, body))
	return r
}

func TestAnswers(t *testing.T) {
	const good = `{"op":"buying_power","client":"c:1"}`
	amount, err := book.ParseAmount("2.50")
	require.NoError(t, err)
	totals := []book.Money{{Amount: amount, Commodity: "EUR"}}
	handlerError := func(err error) error { return &dispatcher.HandlerError{ID: 1, Attempts: 1, Err: err} }
	for name, c := range map[string]struct {
		body    string
		service answering
		code    int
		want    string
	}{
		"applied":   {good, answering{reply: book.Reply{Totals: totals}}, 200, `{"status":"applied","totals":[{"amount":"2.50","commodity":"EUR"}]}`},
		"malformed": {`{"op":"open"}`, answering{}, 400, `{"status":"malformed","error":"open needs \"account\""}`},
		"no JSON":   {"hello", answering{}, 400, `{"status":"malformed","error":"not JSON: invalid character 'h' looking for beginning of value"}`},
		"empty":     {"", answering{}, 400, `{"status":"malformed","error":"empty: a message is a JSON object"}`},
		"too large": {strings.Repeat(" ", 1<<20) + good, answering{}, 413, `{"status":"malformed","error":"http: request body too large"}`},
		"rejected": {good, answering{err: handlerError(&book.Rejection{Reason: book.NoCover, Detail: "none"})}, 409,
			`{"status":"rejected","reason":"no cover","error":"no cover: none"}`},
		"unmet": {good, answering{err: handlerError(&book.UnmetError{Expectation: book.Expectation{Account: "a", Balance: amount}})}, 409,
			`{"status":"rejected","reason":"expectation not met","error":"expectation not met: a has 0, expected 2.50"}`},
		"id is taken": {good, answering{err: &book.Rejection{Reason: book.IDTaken, Detail: "d1"}}, 422,
			`{"status":"rejected","reason":"id is taken","error":"id is taken: d1"}`},
		"closed":  {good, answering{err: ordering.ErrClosed}, 503, `{"status":"refused","error":"the service is ending"}`},
		"stopped": {good, answering{err: fmt.Errorf("%w: disk full", ordering.ErrStopped)}, 503, `{"status":"refused","error":"the service has stopped after a failure"}`},
		"done":    {good, answering{err: service.ErrDone}, 200, `{"status":"done before"}`},
		"done, with the answer": {good, answering{reply: book.Reply{Totals: totals}, err: service.ErrDone}, 200,
			`{"status":"done before","totals":[{"amount":"2.50","commodity":"EUR"}]}`},
		"cut": {good, answering{reply: book.Reply{Cut: true}}, 200,
			`{"status":"applied","error":"the totals are more than an answer has room for, and are left out"}`},
		"held": {good, answering{err: service.ErrHeld}, 202, `{"status":"held"}`},
		"contradiction": {good, answering{err: &ordering.ContradictionError{}}, 409,
			`{"status":"rejected","reason":"numbers","error":"ordering: events contradict each other in their numbers:"}`},
		"ended": {good, answering{err: ordering.ErrEnded}, 409,
			`{"status":"rejected","reason":"numbers","error":"ordering: stream has ended before this number"}`},
		"failed": {good, answering{err: handlerError(errors.New("disk full"))}, 500,
			`{"status":"unknown","error":"the service stops after a failure: with an id or numbers of its own the message can be sent again, otherwise look at the balances first"}`},
		"in doubt": {good, answering{err: fmt.Errorf("%w: %w", service.ErrInDoubt, ordering.ErrClosed)}, 500,
			`{"status":"unknown","error":"the service has ended: with an id or numbers of its own the message can be sent again, otherwise look at the balances first"}`},
		"taken over in doubt": {good, answering{err: fmt.Errorf("%w: %w", service.ErrInDoubt, ordering.ErrFenced)}, 500,
			`{"status":"unknown","error":"another program has taken over the database meanwhile: with an id or numbers of its own the message can be sent again, otherwise look at the balances first"}`},
		"taken over": {good, answering{err: fmt.Errorf("commit: %w", ordering.ErrFenced)}, 503,
			`{"status":"refused","error":"another program has taken over the database: send it to that one"}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := ask(c.service, http.MethodPost, "/messages", strings.NewReader(c.body))
			assert.Equal(t, c.code, r.Code)
			assert.Equal(t, "application/json", r.Header().Get("Content-Type"))
			assert.JSONEq(t, c.want, r.Body.String())
		})
	}
}

// remembering is a service that keeps the IDs of the messages that it gets.
type remembering struct {
	answering
	ids *[]string
}

func (r remembering) Do(_ context.Context, m *book.Message) (book.Reply, error) {
	*r.ids = append(*r.ids, m.ID)
	return book.Reply{}, nil
}

// The header Idempotency-Key is the ID of the message, as "id" in the body is.
func TestTheKeyIsTheID(t *testing.T) {
	const plain, named = `{"op":"end_of_day"}`, `{"op":"end_of_day","id":"a"}`
	for name, c := range map[string]struct {
		body   string
		values []string
		id     string
		err    string // "" if the message is run
	}{
		"neither":          {body: plain},
		"the header":       {body: plain, values: []string{"a"}, id: "a"},
		"quoted":           {body: plain, values: []string{`"a b"`}, id: "a b"},
		"the body":         {body: named, id: "a"},
		"both":             {body: named, values: []string{`"a"`}, id: "a"},
		"they differ":      {body: named, values: []string{"b"}, err: `Idempotency-Key "b" and "id" "a" differ: send one of them`},
		"twice":            {body: plain, values: []string{"a", "a"}, err: "Idempotency-Key is given twice: send it once"},
		"empty":            {body: plain, values: []string{""}, err: `Idempotency-Key "": empty: give each message a key of its own`},
		"quoted and empty": {body: plain, values: []string{`""`}, err: `Idempotency-Key "\"\"": empty: give each message a key of its own`},
		"half quoted":      {body: plain, values: []string{`"a`}, err: `Idempotency-Key "\"a": the closing quotation mark is missing`},
		"one mark":         {body: plain, values: []string{`"`}, err: `Idempotency-Key "\"": the closing quotation mark is missing`},
		"escaped":          {body: plain, values: []string{`"a\"b"`}, err: `Idempotency-Key "\"a\\\"b\"": has a quotation mark or a backslash: choose a key without`},
		"a list":           {body: plain, values: []string{`"a", "b"`}, err: `Idempotency-Key "\"a\", \"b\"": has a quotation mark or a backslash: choose a key without`},
		"too long":         {body: plain, values: []string{strings.Repeat("x", 201)}, err: `id "` + strings.Repeat("x", 80) + `": longer than 200 characters: use a shorter one`},
		"no UTF-8":         {body: plain, values: []string{"\xff"}, err: `id "\xff": not UTF-8: convert the input`},
	} {
		t.Run(name, func(t *testing.T) {
			var ids []string
			request := httptest.NewRequest(http.MethodPost, "/messages", strings.NewReader(c.body))
			request.Header["Idempotency-Key"] = c.values
			r := httptest.NewRecorder()
			web.Handler(remembering{ids: &ids}, web.Config{}).ServeHTTP(r, request)
			var answer web.Answer
			require.NoError(t, json.Unmarshal(r.Body.Bytes(), &answer))
			if c.err == "" {
				assert.Equal(t, web.Answer{Status: web.Applied}, answer)
				assert.Equal(t, []string{c.id}, ids)
				return
			}
			assert.Equal(t, http.StatusBadRequest, r.Code)
			assert.Equal(t, web.Answer{Status: web.Malformed, Error: c.err}, answer)
			assert.Empty(t, ids)
		})
	}
}

func TestNoAnswerInTime(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/messages", strings.NewReader(`{"op":"end_of_day"}`))
	web.Handler(answering{}, web.Config{}).ServeHTTP(r, request)
	var answer web.Answer
	require.NoError(t, json.Unmarshal(r.Body.Bytes(), &answer))
	assert.Equal(t, http.StatusGatewayTimeout, r.Code)
	assert.Equal(t, web.Unknown, answer.Status)
}

func TestOtherPaths(t *testing.T) {
	schema := ask(answering{}, http.MethodGet, "/schema", nil)
	assert.Equal(t, "the schema", schema.Body.String())
	assert.Equal(t, http.StatusOK, ask(answering{}, http.MethodGet, "/health", nil).Code)
	assert.Equal(t, http.StatusServiceUnavailable, ask(answering{stopped: true}, http.MethodGet, "/health", nil).Code)
	assert.Equal(t, http.StatusMethodNotAllowed, ask(answering{}, http.MethodGet, "/messages", nil).Code)
	assert.Equal(t, http.StatusNotFound, ask(answering{}, http.MethodGet, "/", nil).Code)
	cut := ask(answering{}, http.MethodPost, "/messages", io.MultiReader(strings.NewReader("{"), errorReader{}))
	assert.Equal(t, http.StatusBadRequest, cut.Code)
}

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Who may not send is not heard: a page of another origin in somebody's browser,
// one that calls this machine by a name of its own, and who has not the token.
func TestWhoMaySend(t *testing.T) {
	for name, c := range map[string]struct {
		config web.Config
		host   string
		header map[string]string
		path   string
		code   int
	}{
		"a program":              {config: web.Config{Local: true}, host: "localhost:8080", code: 200},
		"by its address":         {config: web.Config{Local: true}, host: "127.0.0.1:8080", code: 200},
		"by its IPv6 address":    {config: web.Config{Local: true}, host: "[::1]:8080", code: 200},
		"another name":           {config: web.Config{Local: true}, host: "evil.example:8080", code: 403},
		"a name like localhost":  {config: web.Config{Local: true}, host: "localhost.evil.example", code: 403},
		"another name elsewhere": {host: "bank.example", code: 200},
		"a foreign origin":       {host: "bank.example", header: map[string]string{"Origin": "https://evil.example"}, code: 403},
		"a foreign page":         {host: "localhost", header: map[string]string{"Sec-Fetch-Site": "cross-site"}, code: 403},
		"a page of its own":      {host: "bank.example", header: map[string]string{"Origin": "http://bank.example"}, code: 200},
		"no token":               {config: web.Config{Token: "secret"}, host: "bank.example", code: 401},
		"a wrong token":          {config: web.Config{Token: "secret"}, host: "bank.example", header: map[string]string{"Authorization": "Bearer secre"}, code: 401},
		"the token":              {config: web.Config{Token: "secret"}, host: "bank.example", header: map[string]string{"Authorization": "Bearer secret"}, code: 200},
		"health without a token": {config: web.Config{Token: "secret"}, host: "bank.example", path: "/health", code: 200},
		"schema without a token": {config: web.Config{Token: "secret"}, host: "bank.example", path: "/schema", code: 401},
	} {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequest(http.MethodPost, "/messages", strings.NewReader(`{"op":"end_of_day"}`))
			if c.path != "" {
				request = httptest.NewRequest(http.MethodGet, c.path, nil)
			}
			request.Host = c.host
			for key, value := range c.header {
				request.Header.Set(key, value)
			}
			r := httptest.NewRecorder()
			web.Handler(answering{}, c.config).ServeHTTP(r, request)
			assert.Equal(t, c.code, r.Code, r.Body.String())
			assert.NotContains(t, r.Body.String(), "secret")
		})
	}
}
