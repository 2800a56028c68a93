package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/orders/internal/order"
	"github.com/interlock-go/interlock/examples/orders/internal/services"
	"github.com/interlock-go/interlock/examples/orders/internal/shop"
	"github.com/interlock-go/interlock/examples/orders/internal/web"
	"github.com/interlock-go/interlock/internal/promtest"
)

// waitAtMost is after how long a test that waits counts as hanging.
const waitAtMost = 2 * time.Minute

// client sends requests to a shop.
type client struct {
	t          *testing.T
	url, token string
}

// do returns the status and the answer.
func (c client) do(method, path string, body any) (code int, answer string) {
	c.t.Helper()
	var text []byte
	if s, is := body.(string); is {
		text = []byte(s)
	} else if body != nil {
		var err error
		text, err = json.Marshal(body)
		require.NoError(c.t, err)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, bytes.NewReader(text))
	require.NoError(c.t, err)
	r.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(c.t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	return resp.StatusCode, string(got)
}

func (c client) requireStatus(id string, want order.Status) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		_, answer := c.do("GET", "/orders/"+id, nil)
		return strings.Contains(answer, `"status":"`+string(want)+`"`)
	}, waitAtMost, 5*time.Millisecond)
}

func kettle(quantity int64) order.Placement {
	return order.Placement{Customer: "ann", Card: "card", Country: "DE", Lines: []order.Line{{Product: "kettle", Quantity: quantity, Price: 3990}}}
}

func TestTheRESTInterface(t *testing.T) {
	o, err := parse([]string{"-unreliable", "0", "-transport", "http"}, io.Discard)
	require.NoError(t, err)
	o.Dir = t.TempDir()
	s, err := services.Open(t.Context(), o.Options)
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	sh, err := shop.Open(t.Context(), o.shopDB(), s.Callers, true, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer func() { assert.NoError(t, sh.Close()) }()
	require.NoError(t, s.Inventory.Stock(t.Context(), "kettle", 10))
	server := httptest.NewServer(web.Handler(sh, "secret"))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	c := client{t, server.URL, "secret"}
	answered := map[string]bool{} // "GET /orders/{id} 200"
	expect := func(want int, method, path string, body any, parts ...string) {
		t.Helper()
		code, answer := c.do(method, path, body)
		assert.Equal(t, want, code, "%s %s: %s", method, path, answer)
		if s := strings.Split(path, "/"); len(s) > 2 {
			s[2] = "{id}"
			path = strings.Join(s, "/")
		}
		answered[fmt.Sprintf("%s %s %d", method, path, code)] = true
		for _, part := range parts {
			require.Contains(t, answer, part)
		}
	}

	expect(202, "PUT", "/orders/1", kettle(2))
	expect(202, "PUT", "/orders/1", kettle(2))
	expect(409, "PUT", "/orders/1", kettle(3), "another order has this ID")
	c.requireStatus("1", order.Completed)
	expect(202, "PUT", "/orders/1", kettle(2))
	expect(409, "POST", "/orders/1/cancel", nil, "too late")
	expect(202, "PUT", "/orders/2", kettle(100))
	c.requireStatus("2", order.Cancelled)
	expect(200, "GET", "/orders/2", nil, "there are 8, not 100")
	require.NoError(t, sh.CatchUp(t.Context()))
	expect(200, "GET", "/orders/1/trace", nil, "OrderPlaced", "SagaStarted", "PaymentAuthorized", "StepCompleted", "OrderCompleted")
	expect(200, "GET", "/customers/ann/history", nil, `"order":"1"`, `"order":"2"`)
	expect(200, "GET", "/customers/ann/statement", nil, `"order":"1"`, `"order":"2"`, `"status":"completed"`, `"status":"cancelled"`)
	expect(200, "GET", "/customers/bob/statement", nil, "[]")
	expect(400, "GET", "/customers/a%00b/statement", nil, "customer")
	expect(200, "GET", "/summary", nil, `{"status":"completed","orders":1,"cents":7980}`, `{"status":"cancelled","orders":1,"cents":399000}`)

	expect(400, "PUT", "/orders/3", `{"customer":`, "the body is no order")
	expect(400, "PUT", "/orders/3", `{"client":"ann"}`, "unknown field")
	expect(400, "PUT", "/orders/3", order.Placement{}, "customer", "there are 0 lines")
	expect(400, "PUT", "/orders/3", `{"customer":"ann","card":"card","country":"DE","lines":[{"product":"kettle","quantity":1,"price":1}]} {}`, "behind the order")
	for _, id := range []string{"a%00b", "a%0Ab", "%FF", strings.Repeat("x", 201)} {
		expect(400, "PUT", "/orders/"+id, kettle(1), "ID")
		for _, what := range []string{"", "/trace"} {
			expect(404, "GET", "/orders/"+id+what, nil, "no such order")
		}
		expect(404, "POST", "/orders/"+id+"/cancel", nil, "no such order")
	}
	expect(404, "GET", "/orders/9/trace", nil, "no such order")
	expect(404, "GET", "/orders/9", nil, "no such order")
	expect(404, "POST", "/orders/9/cancel", nil)
	expect(404, "GET", "/nothing", nil)
	expect(405, "DELETE", "/orders/1", nil)
	expect(200, "GET", "/health", nil, `"status":"ok"`)
	_, text := c.do("GET", "/openapi.json", nil)
	var description struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &description))
	described := map[string]bool{}
	for path, methods := range description.Paths {
		for method, text := range methods {
			var operation struct{ Responses map[string]any }
			if method == "parameters" {
				continue
			}
			require.NoError(t, json.Unmarshal(text, &operation))
			for code := range operation.Responses {
				described[strings.ToUpper(method)+" "+path+" "+code] = true
			}
			for _, code := range []string{"401", "429", "503"} {
				assert.True(t, path == "/health" || described[strings.ToUpper(method)+" "+path+" "+code], "%s %s may answer %s", method, path, code)
			}
		}
	}
	for answer := range answered {
		assert.True(t, described[answer] || strings.Contains(answer, "/nothing") || strings.Contains(answer, "DELETE"), "%s is not described", answer)
	}
	require.Len(t, description.Paths, 7)
	for path, methods := range description.Paths {
		for method := range methods {
			if method != "parameters" {
				code, answer := c.do(strings.ToUpper(method), strings.ReplaceAll(path, "{id}", "1"), nil)
				require.NotEqual(t, 405, code, path)
				require.NotContains(t, answer, "page not found", path)
			}
		}
	}
	c.token = "wrong"
	expect(401, "GET", "/orders/1", nil)
	expect(200, "GET", "/health", nil)
}

// What the README says works: a shop that is served has something to sell.
func TestTheShopIsServed(t *testing.T) {
	p := start(t, "-listen", ":0", "-dir", t.TempDir(), "-unreliable", "0")
	defer http.DefaultClient.CloseIdleConnections()
	placement := kettle(1)
	placement.Lines[0].Product = product(7)
	code, answer := p.do("PUT", "/orders/1", placement)
	require.Equal(t, 202, code, answer)
	p.requireStatus("1", order.Completed)
	p.kill(t)
}

// While the shop works, each query of the dashboard that is about sagas, or about the store,
// gives numbers, in Prometheus.
func TestTheDashboard(t *testing.T) {
	p := start(t, "-listen", "127.0.0.1:0", "-dir", t.TempDir(), "-unreliable", "0")
	defer http.DefaultClient.CloseIdleConnections()
	prometheus := promtest.Start(t, strings.TrimPrefix(p.url, "http://"))
	var queries []string
	for _, panel := range promtest.Panels(t, "../../dispatcher/telemetry/scrape/dashboard.json") {
		if strings.HasPrefix(panel.Title, "Sagas: ") || strings.Contains(panel.Title, "commit") {
			queries = append(queries, panel.Queries...)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var prometheusSees sync.WaitGroup
	t.Cleanup(prometheusSees.Wait)
	prometheusSees.Go(func() {
		defer cancel()
		prometheus.AwaitNumbers(t, queries)
	})
	for n := 0; ctx.Err() == nil; n++ { // every other order is for more than there is
		placement := kettle(1 + int64(n%2)*5000)
		placement.Lines[0].Product = product(7)
		code, answer := p.do("PUT", fmt.Sprintf("/orders/%d", n), placement)
		require.Equal(t, http.StatusAccepted, code, answer)
	}
	p.kill(t)
}

// The page shows the checkouts and the read models to who has the token.
func TestThePage(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o, err := parse([]string{"-unreliable", "0", "-listen", ":0", "-token", "secret"}, io.Discard)
	require.NoError(t, err)
	o.Dir = t.TempDir()
	read, stderr := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(o.serveShop(ctx, stderr), stderr.Close()) }()
	lines := bufio.NewReader(read)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	c := client{t, strings.TrimSpace(line[strings.Index(line, "http://"):]), "secret"}
	code, answer := c.do("PUT", "/orders/1", order.Placement{Customer: "ann", Card: "card", Country: "DE", Lines: []order.Line{{Product: "product-01", Quantity: 1, Price: 3990}}})
	require.Equal(t, 202, code, answer)
	c.requireStatus("1", order.Completed)

	for path, says := range map[string]string{"/livez": "live", "/readyz": "ready", "/stalledz": "not stalled"} {
		code, answer = client{t, c.url, ""}.do("GET", path, nil)
		assert.Equal(t, http.StatusOK, code)
		assert.JSONEq(t, `{"status":"`+says+`"}`, answer)
	}
	code, answer = c.do("GET", "/metrics", nil)
	assert.Equal(t, http.StatusOK, code)
	for _, series := range []string{
		`interlock_saga_runs{interlock_name="checkouts",interlock_state="running"}`,
		`interlock_projection_lag{interlock_name="summary",messaging_destination_partition_id="0"}`,
		`interlock_sequencer_events_total{interlock_name="details",interlock_result="applied"}`,
	} {
		assert.Contains(t, answer, series)
	}
	code, _ = client{t, c.url, "other"}.do("GET", "/metrics", nil)
	assert.Equal(t, http.StatusUnauthorized, code)
	code, _ = c.do("GET", "/interlock/", nil)
	require.Equal(t, 401, code)
	page := func(path string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/interlock/"+path, nil)
		require.NoError(t, err)
		r.SetBasicAuth("ann", "secret")
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		if path == "stream" { // it is open when the shop ends
			t.Cleanup(func() { _ = response.Body.Close() })
			return response.Header.Get("Content-Type")
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return string(body)
	}
	require.Contains(t, page(""), "Runs that do not come on")
	require.Contains(t, page("?source=history"), "entries behind")
	require.Equal(t, "text/event-stream", page("stream"))
	cancel()
	require.NoError(t, <-ended)
	http.DefaultClient.CloseIdleConnections()
}
