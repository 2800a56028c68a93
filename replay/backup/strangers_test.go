package backup_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/replay/backup"
)

// dial opens a connection and begins a request with a body of a length, of which
// it sends a part. The signature is one that could be right.
func dial(t *testing.T, server *httptest.Server, key string, length, sent int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Authorization: Interlock-HMAC-SHA256 key=%s,time=%d,signature=%064x\r\n\r\n%s", length, key, time.Now().Unix(), 7, strings.Repeat("[", sent))
	require.NoError(t, err)
	return conn
}

// TestTricklers: connections whose bodies never end, more than there are slots,
// keep nobody from being served, whether they know the ID of a key or not.
func TestTricklers(t *testing.T) {
	h := handler(t, backup.HandlerConfig{Sink: applies, MaxOpen: 2, ReadTimeout: time.Hour, MinRate: 1})
	server := serve(t, h)
	const tricklers = 40
	for i := range tricklers {
		dial(t, server, []string{newKey.ID, "none"}[i%2], 5000, 1000)
	}
	soon(t, func() bool { return h.Stats().Reading == tricklers }, "all are being read")
	c := client(t, server, backup.ClientConfig{})
	for n := range uint64(100) {
		require.NoError(t, c.Publish(t.Context(), event(n+1)))
	}
	assert.Equal(t, tricklers, h.Stats().Reading)
	assert.EqualValues(t, 100, h.Stats().Events)
}

// TestHoarders: bodies that fill the memory for those of strangers, and do not
// end, are given up for what comes after them.
func TestHoarders(t *testing.T) {
	h := handler(t, backup.HandlerConfig{Sink: applies, MaxBytes: 64 << 10, MaxReadBytes: 64 << 10, ReadTimeout: time.Hour, MinRate: 1})
	server := serve(t, h)
	c := client(t, server, backup.ClientConfig{})
	var conns []net.Conn
	for n := range uint64(20) {
		conns = append(conns, dial(t, server, newKey.ID, 60<<10, 50<<10))
		require.NoError(t, c.Publish(t.Context(), event(n+1)))
	}
	soon(t, func() bool { return h.Stats().Reading == 1 }, "there is room for one")
	response, err := http.ReadResponse(bufio.NewReader(conns[0]), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	assert.Contains(t, string(body), `"code":"busy"`)
	soon(t, func() bool { return h.Stats().Open == 0 }, "no request has a slot")
}

// timed is a body that comes in parts, one a second, until its deadline.
type timed struct {
	*httptest.ResponseRecorder
	rest, part int
	deadline   time.Time
}

func (b *timed) SetReadDeadline(at time.Time) error {
	b.deadline = at
	return nil
}

func (b *timed) Read(p []byte) (int, error) {
	if b.rest == 0 {
		return 0, io.EOF
	}
	n := min(len(p), b.part, b.rest)
	time.Sleep(time.Second * time.Duration(n) / time.Duration(b.part))
	if !b.deadline.IsZero() && time.Now().After(b.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	b.rest -= n
	return copy(p, strings.Repeat(" ", n)), nil
}

func (b *timed) Close() error { return nil }

// TestBodiesHaveTheirTime: a body that comes at the rate that is wanted is read,
// and one that does not is given up soon, whatever its length.
func TestBodiesHaveTheirTime(t *testing.T) {
	for _, c := range []struct {
		length, rate int
		status       int
		lasts        time.Duration // at most
	}{
		{1000, 1, http.StatusRequestTimeout, 3 * time.Second},
		{1 << 20, 1000, http.StatusRequestTimeout, 4 * time.Second},
		{1 << 20, 15 << 10, http.StatusRequestTimeout, 60 * time.Second},
		{1 << 20, 17 << 10, http.StatusUnauthorized, 65 * time.Second},
		{1 << 20, 1 << 20, http.StatusUnauthorized, 2 * time.Second},
		{4 << 20, 20 << 10, http.StatusRequestTimeout, 101 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := handler(t, backup.HandlerConfig{Sink: applies, ReadTimeout: 100 * time.Second})
			body := &timed{ResponseRecorder: httptest.NewRecorder(), rest: c.length, part: c.rate}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
			r.ContentLength = int64(c.length)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", sign(newKey, time.Now(), "something else"))
			began := time.Now()
			h.ServeHTTP(body, r)
			assert.Equal(t, c.status, body.Code, "%d bytes at %d a second: %s", c.length, c.rate, body.Body)
			assert.LessOrEqual(t, time.Since(began), c.lasts, "%d bytes at %d a second", c.length, c.rate)
			assert.Zero(t, h.Stats().Reading)
		})
	}
}

// TestStrangers: requests without a key are counted, cost one short line of log
// for very many, and are answered and read alike whichever key they name.
func TestStrangers(t *testing.T) {
	var log bytes.Buffer
	h := handler(t, backup.HandlerConfig{Sink: applies, Keys: []backup.Key{oldKey, newKey}, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	for range 1000 {
		response, _ := postAs(t, h, strings.Repeat("x", 10_000))
		require.Equal(t, http.StatusUnauthorized, response.StatusCode)
	}
	assert.Less(t, log.Len(), 1000)
	assert.Equal(t, 1, strings.Count(log.String(), "\n"))
	for _, at := range []time.Time{time.Now(), time.Now().Add(-time.Hour)} {
		var answers []string
		for _, id := range []string{"none", oldKey.ID, newKey.ID} {
			body := strings.NewReader(goodBody)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", fmt.Sprintf("Interlock-HMAC-SHA256 key=%s,time=%d,signature=%064x", id, at.Unix(), 7))
			response, text := ask(t, h, r)
			answers = append(answers, fmt.Sprint(response.StatusCode, response.Header, text, body.Len()))
		}
		assert.Equal(t, answers[0], answers[1])
		assert.Equal(t, answers[0], answers[2])
	}
	stats := h.Stats()
	assert.EqualValues(t, 1006, stats.Unauthorised)
	assert.EqualValues(t, 1006, stats.TurnedAway)
}

// TestBombs: a request of somebody who may send it, and an answer, are bounded by
// what they take in memory, not only by their length.
func TestBombs(t *testing.T) {
	const most = 2 << 20
	list := func(item string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	var headers []string
	for i := range 150_000 {
		headers = append(headers, fmt.Sprintf(`"%x":""`, i))
	}
	wide := `{"positions":` + list("{}", 4000) + `}`
	measure := func(do func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	h := handler(t, backup.HandlerConfig{Public: true, Sink: applies, MaxBytes: most})
	for name, body := range map[string]string{
		"positions":         `{"version":1,"events":[{"positions":` + list("{}", most/3-100) + `}]}`,
		"positions of many": `{"version":1,"events":` + list(wide, most/len(wide)-1) + `}`,
		"headers":           `{"version":1,"events":[{"headers":{` + strings.Join(headers, ",") + `}}]}`,
		"events":            `{"version":1,"events":` + list("{}", most/3-100) + `}`,
		"deep":              `{"version":1,"events":[{"payload":` + strings.Repeat("[", most/2-100) + strings.Repeat("]", most/2-100) + `}]}`,
		"a huge number":     `{"version":1,"events":[{"positions":[{"stream":"order/7","number":` + strings.Repeat("9", most/2) + `}]}]}`,
	} {
		used := measure(func() {
			response, answer := post(t, h, body)
			assert.Contains(t, []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge}, response.StatusCode, name)
			assert.Less(t, len(answer), 8<<10, name)
		})
		assert.Less(t, used, uint64(16*most), name)
	}
	soon(t, func() bool { return h.Stats().Open == 0 }, "no request has a slot")

	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"version":1,"results":`+list("{}", 200_000)+`}`)
	}))
	var batch []uint64
	for n := range uint64(50) {
		batch = append(batch, n+1)
	}
	c := client(t, server, backup.ClientConfig{})
	used := measure(func() {
		_, err := c.Send(t.Context(), events(batch...))
		require.ErrorIs(t, err, backup.ErrResponse)
	})
	assert.Less(t, used, uint64(16<<20))
}
