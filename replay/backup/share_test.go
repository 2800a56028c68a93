package backup_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/backup"
)

// postBody posts a body, signed with a key.
func postBody(t *testing.T, h http.Handler, key backup.Key, body string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", sign(key, time.Now(), body))
	return ask(t, h, r)
}

// slowly is a sink whose events are applied when release is closed.
func slowly(release chan struct{}) sinkFunc {
	return func(_ context.Context, e *ordering.Event, done ordering.Done) error {
		go func() {
			<-release
			done(e, ordering.Outcome{Result: ordering.Applied})
		}()
		return nil
	}
}

// TestOneSenderLeavesRoom: of slots, memory and rate the requests with one key
// take a share, and leave the rest to others, who share it with a token.
func TestOneSenderLeavesRoom(t *testing.T) {
	large := `{"version":1,"events":[{"payload":"` + strings.Repeat("AAAA", 1000) + `","positions":[{"stream":"order/7","number":1}]}]}`
	for name, c := range map[string]struct {
		cfg  backup.HandlerConfig
		body string
		most int // of one sender
	}{
		"slots":             {backup.HandlerConfig{MaxOpen: 4}, goodBody, 3},
		"half of the slots": {backup.HandlerConfig{MaxOpen: 4, Share: 0.5}, goodBody, 2},
		"bytes":             {backup.HandlerConfig{MaxOpenBytes: 17_000}, large, 3},
		"bytes in memory":   {backup.HandlerConfig{MaxOpenBytes: 1300}, goodBody, 3}, // 300 for each, about
		"rate":              {backup.HandlerConfig{Rate: 4, MaxEvents: 1}, goodBody, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				cfg := c.cfg
				cfg.Sink, cfg.Wait = slowly(release), time.Hour
				cfg.Keys, cfg.Tokens = []backup.Key{oldKey, newKey}, []backup.Token{token}
				h := handler(t, cfg)
				answered := make(chan int)
				send := func(key backup.Key) {
					go func() {
						response, _ := postBody(t, h, key, c.body)
						answered <- response.StatusCode
					}()
					synctest.Wait()
				}
				for range c.most {
					send(oldKey)
				}
				assert.Equal(t, c.most, h.Stats().Open)
				response, _ := postBody(t, h, oldKey, c.body)
				assert.Contains(t, []int{http.StatusServiceUnavailable, http.StatusTooManyRequests}, response.StatusCode)
				send(newKey)
				assert.Equal(t, c.most+1, h.Stats().Open, "there is room for another one")
				close(release)
				for range c.most + 1 {
					assert.Equal(t, http.StatusOK, <-answered)
				}
				assert.Zero(t, h.Stats().Open)
			})
		})
	}
}

// TestOpenBytes: the bodies that are being served are bounded together, and one
// that is larger than all of that is served alone.
func TestOpenBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := handler(t, backup.HandlerConfig{Sink: slowly(release), Wait: time.Hour, MaxOpenBytes: 100})
		done := make(chan int)
		go func() {
			response, _ := postBody(t, h, newKey, goodBody)
			done <- response.StatusCode
		}()
		synctest.Wait()
		response, body := postBody(t, h, newKey, goodBody)
		assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
		assert.Contains(t, body, "1 requests are being served")
		close(release)
		require.Equal(t, http.StatusOK, <-done)
		response, _ = postBody(t, h, newKey, goodBody)
		assert.Equal(t, http.StatusOK, response.StatusCode)
	})
}
