package httpreplay_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/httpreplay"
)

// fetchFrom asks a server that answers with a text.
func fetchFrom(t *testing.T, text string, cfg httpreplay.ClientConfig) (replay.Answer, error) {
	t.Helper()
	server := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}))
	return client(t, server, cfg).Fetch(t.Context(), ordering.Range{Stream: order, From: 1, To: 2})
}

func list(item string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
}

// TestBombs: an answer of a few bytes for each of very many values takes no more
// than a few times MaxBytes.
func TestBombs(t *testing.T) {
	const most = 2 << 20
	var headers []string
	for i := range 150_000 {
		headers = append(headers, fmt.Sprintf(`"%x":""`, i))
	}
	event := `{"positions":` + list("{}", 4000) + `}`
	for name, c := range map[string]struct {
		text string
		is   error
	}{
		"positions":           {`{"version":1,"events":[{"positions":` + list("{}", most/3-100) + `}]}`, httpreplay.ErrResponse},
		"positions of many":   {`{"version":1,"events":` + list(event, most/len(event)-1) + `}`, httpreplay.ErrTooLarge},
		"headers":             {`{"version":1,"events":[{"headers":{` + strings.Join(headers, ",") + `}}]}`, httpreplay.ErrResponse},
		"events":              {`{"version":1,"events":` + list("{}", most/3-100) + `}`, httpreplay.ErrTooLarge},
		"ranges":              {`{"version":1,"no_such":` + list("{}", most/3-100) + `}`, httpreplay.ErrTooLarge},
		"something else":      {`{"version":1,"more":` + list("{}", most/3-100) + `}`, nil},
		"names":               {`{"version":1,` + strings.Join(headers, ",") + `}`, httpreplay.ErrResponse},
		"deep":                {`{"version":1,"events":[{"payload":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}]}`, httpreplay.ErrResponse},
		"white space":         {`{"version":1,` + strings.Repeat(" ", 2*most) + `}`, httpreplay.ErrTooLarge},
		"more than the bound": {`{"version":1,"events":[{"id":"` + strings.Repeat("x", most) + `"}]}`, httpreplay.ErrTooLarge},
		"a huge number":       {`{"version":1,"events":[{"positions":[{"stream":"order/7","number":` + strings.Repeat("9", 1<<20) + `}]}]}`, httpreplay.ErrResponse},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := fetchFrom(t, c.text, httpreplay.ClientConfig{MaxBytes: most})
			runtime.ReadMemStats(&after)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			} else {
				require.NoError(t, err)
			}
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16*most))
			assert.Less(t, len(fmt.Sprint(err)), 2000, "and the error is short")
		})
	}
}

// TestTwoReadings: what can be read in two ways, or would be changed by reading
// it, is no answer.
func TestTwoReadings(t *testing.T) {
	const at = `"positions":[{"stream":"order/7","number":1}]`
	for name, text := range map[string]string{
		"a field twice":             `{"version":1,"events":[{` + at + `,"positions":[{"stream":"order/8","number":9}]}]}`,
		"a field in capitals":       `{"version":1,"events":[{` + at + `,"Positions":[{"stream":"order/8","number":9}]}]}`,
		"a number twice":            `{"version":1,"events":[{"positions":[{"stream":"order/7","number":1,"number":2}]}]}`,
		"a header twice":            `{"version":1,"events":[{` + at + `,"headers":{"a":"1","a":"2"}}]}`,
		"the events twice":          `{"version":1,"events":[],"events":[{` + at + `}]}`,
		"half a surrogate pair":     `{"version":1,"events":[{` + at + `,"id":"\ud83d"}]}`,
		"a stream with half a pair": `{"version":1,"events":[{"positions":[{"stream":"order/\udc00","number":1}]}]}`,
		"not UTF-8":                 `{"version":1,"events":[{` + at + ",\"id\":\"\xff\"}]}",
		"a number with a fraction":  `{"version":1,"events":[{"positions":[{"stream":"order/7","number":1.5}]}]}`,
		"a number in another form":  `{"version":1,"events":[{"positions":[{"stream":"order/7","number":1e0}]}]}`,
		"a range twice":             `{"version":1,"no_such":[{"stream":"order/7","from":1,"to":1,"to":9}]}`,
	} {
		_, err := fetchFrom(t, text, httpreplay.ClientConfig{})
		require.ErrorIs(t, err, httpreplay.ErrResponse, name)
	}
	a, err := fetchFrom(t, `{"version":1,"new":{"X":1},"events":[{`+at+`,"headers":{"A":"1","a":"2"},"added_later":7}]}`, httpreplay.ClientConfig{})
	require.NoError(t, err, "fields that are not known do no harm")
	assert.Equal(t, map[string]string{"A": "1", "a": "2"}, a.Events[0].Headers)
}

// TestLyingSource: a server that is asked for one stream cannot bring in events
// of another.
func TestLyingSource(t *testing.T) {
	for name, text := range map[string]string{
		"another stream": `{"version":1,"events":[{"id":"stolen","positions":[{"stream":"order/8","number":1}]}]}`,
		"another number": `{"version":1,"events":[{"id":"stolen","positions":[{"stream":"order/7","number":9}]}]}`,
		"beside a right one": `{"version":1,"events":[{"positions":[{"stream":"order/7","number":1}]},
			{"id":"stolen","positions":[{"stream":"order/8","number":1}]}]}`,
	} {
		server := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, text)
		}))
		r, err := replay.New(replay.Config{Attempts: 1, Sources: []replay.NamedSource{{Name: "liar", Source: client(t, server, httpreplay.ClientConfig{})}}})
		require.NoError(t, err)
		_, err = r.Replay(t.Context(), ordering.Range{Stream: order, From: 1, To: 2}, func(context.Context, []*ordering.Event) error {
			t.Error("delivered")
			return nil
		})
		require.ErrorIs(t, err, replay.ErrAnswer, name)
		assert.ErrorContains(t, err, `liar: order/7: 1 to 2: bad answer: event "stolen"`)
	}
}

// TestStrangers: requests without a key are counted, cost one short line of log
// for very many, and are answered alike whichever key they name.
func TestStrangers(t *testing.T) {
	var log bytes.Buffer
	handler, err := httpreplay.NewServer(httpreplay.ServerConfig{Source: logOf(3), Keys: []httpreplay.Key{oldKey, newKey},
		Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	require.NoError(t, err)
	ask := func(authorization string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/x?version=1&from=1&to=2&stream="+strings.Repeat("%01", 5200), nil)
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	for range 1000 {
		require.Equal(t, http.StatusUnauthorized, ask("").Code)
	}
	assert.Less(t, log.Len(), 1000)
	assert.Equal(t, 1, strings.Count(log.String(), "\n"))
	for _, at := range []time.Time{time.Now(), time.Now().Add(-time.Hour)} {
		var answers []string
		for _, id := range []string{"none", oldKey.ID, newKey.ID} {
			w := ask(fmt.Sprintf("Interlock-HMAC-SHA256 key=%s,time=%d,signature=%064x", id, at.Unix(), 7))
			answers = append(answers, fmt.Sprint(w.Code, w.Header(), w.Body.String()))
		}
		assert.Equal(t, answers[0], answers[1])
		assert.Equal(t, answers[0], answers[2])
	}
	stats := handler.Stats()
	assert.EqualValues(t, 1006, stats.Requests)
	assert.EqualValues(t, 1006, stats.Unauthorised)
}

// TestOneKeyLeavesRoom: requests with one key cannot take all places.
func TestOneKeyLeavesRoom(t *testing.T) {
	begun, end := make(chan bool), make(chan bool)
	server := serve(t, httpreplay.ServerConfig{Keys: []httpreplay.Key{oldKey, newKey}, MaxOpen: 4, Timeout: time.Hour,
		Source: replay.SourceFunc(func(_ context.Context, asked ordering.Range) (replay.Answer, error) {
			if asked.From == 1 {
				begun <- true
				<-end
			}
			return replay.Answer{}, nil
		})})
	greedy, other := client(t, server, httpreplay.ClientConfig{Key: oldKey}), client(t, server, httpreplay.ClientConfig{Key: newKey})
	var asking sync.WaitGroup
	for range 3 {
		asking.Go(func() {
			_, err := greedy.Fetch(t.Context(), ordering.Range{Stream: order, From: 1, To: 1})
			assert.NoError(t, err)
		})
		<-begun
	}
	_, err := greedy.Fetch(t.Context(), ordering.Range{Stream: order, From: 2, To: 2})
	require.ErrorContains(t, err, "too_many")
	_, err = other.Fetch(t.Context(), ordering.Range{Stream: order, From: 2, To: 2})
	require.NoError(t, err)
	close(end)
	asking.Wait()
}

// TestSlowReaders: a client that does not read its answer has a place for
// WriteTimeout and no longer.
func TestSlowReaders(t *testing.T) {
	large := make([]byte, 32<<20)
	handler, err := httpreplay.NewServer(httpreplay.ServerConfig{Public: true, MaxBytes: 64 << 20, MaxOpen: 1, WriteTimeout: 50 * time.Millisecond,
		Source: replay.SourceFunc(func(context.Context, ordering.Range) (replay.Answer, error) {
			return replay.Answer{Events: []*ordering.Event{{Positions: []ordering.Position{{Stream: order, Number: 1}}, Payload: large}}}, nil
		})})
	require.NoError(t, err)
	server := serveHandler(t, handler)
	response, err := server.Client().Get(server.URL + "?" + good)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Eventually(t, func() bool { return handler.Stats().Open == 0 }, 5*time.Minute, time.Millisecond)
}

// TestOddSources: what a source gives that was not asked for is its fault, which
// its own server tells before any client does.
func TestOddSources(t *testing.T) {
	for says, e := range map[string]*ordering.Event{
		"is nil":                        nil,
		"order/8=1, was not asked for":  {Positions: []ordering.Position{{Stream: lockkeys.Must("order", "8"), Number: 1}}},
		"order/7=99, was not asked for": {Positions: []ordering.Position{{Stream: order, Number: 99}}},
	} {
		var log bytes.Buffer
		handler, err := httpreplay.NewServer(httpreplay.ServerConfig{Public: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Source: replay.SourceFunc(func(context.Context, ordering.Range) (replay.Answer, error) {
				return replay.Answer{Events: []*ordering.Event{{Positions: []ordering.Position{{Stream: order, Number: 1}}}, e}}, nil
			})})
		require.NoError(t, err)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?"+good, nil))
		assert.Equal(t, http.StatusInternalServerError, w.Code)
		assert.Contains(t, log.String(), says)
		assert.EqualValues(t, 1, handler.Stats().Failed)
	}
}
