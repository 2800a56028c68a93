package httpreplay_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/httpreplay"
)

// sign makes a header by the words of the package's doc, for the query good.
func sign(key httpreplay.Key, at time.Time, query string) string {
	mac := hmac.New(sha256.New, key.Secret)
	fmt.Fprintf(mac, "interlock-replay-1\nGET\n%d\n%s", at.Unix(), query)
	return fmt.Sprintf("Interlock-HMAC-SHA256 key=%s,time=%d,signature=%x", key.ID, at.Unix(), mac.Sum(nil))
}

func TestSignatures(t *testing.T) {
	server := serve(t, httpreplay.ServerConfig{Source: logOf(3), Keys: []httpreplay.Key{oldKey, newKey}})
	now := time.Now()
	stranger := httpreplay.Key{ID: "stranger", Secret: newKey.Secret}
	forged := httpreplay.Key{ID: newKey.ID, Secret: oldKey.Secret}
	for _, c := range []struct {
		name, header string
		status       int
		message      string
	}{
		{"new key", sign(newKey, now, good), http.StatusOK, ""},
		{"old key", sign(oldKey, now, good), http.StatusOK, ""},
		{"a clock that is a little late", sign(newKey, now.Add(-50*time.Second), good), http.StatusOK, ""},
		{"unsigned", "", http.StatusUnauthorized, "not signed"},
		{"another scheme", "Bearer abc", http.StatusUnauthorized, "not signed"},
		{"unknown key", sign(stranger, now, good), http.StatusUnauthorized, "unknown key or wrong signature"},
		{"wrong secret", sign(forged, now, good), http.StatusUnauthorized, "unknown key or wrong signature"},
		{"signed for other numbers", sign(newKey, now, "from=1&stream=order%2F7&to=4&version=1"), http.StatusUnauthorized, "unknown key or wrong signature"},
		{"overheard long ago", sign(newKey, now.Add(-2*time.Minute), good), http.StatusUnauthorized, "compare the clocks"},
		{"from the future", sign(newKey, now.Add(2*time.Minute), good), http.StatusUnauthorized, "compare the clocks"},
		{"cut", sign(newKey, now, good)[:90], http.StatusUnauthorized, "not signed"},
		{"no hex", sign(newKey, now, good)[:60] + fmt.Sprintf("%064d", 0), http.StatusUnauthorized, ""},
		{"more parameters", sign(newKey, now, good) + ",more=1", http.StatusUnauthorized, "not signed"},
		{"no time", "Interlock-HMAC-SHA256 key=2026,time=now,signature=" + fmt.Sprintf("%064d", 0), http.StatusUnauthorized, "not signed"},
		{"time out of bounds", "Interlock-HMAC-SHA256 key=2026,time=9223372036854775807,signature=" + fmt.Sprintf("%064d", 0), http.StatusUnauthorized, "unknown key or wrong"},
	} {
		status, body := get(t, server, http.MethodGet, good, c.header)
		assert.Equal(t, c.status, status, c.name)
		assert.Contains(t, body, c.message, c.name)
		if c.status != http.StatusOK {
			assert.Contains(t, body, `"code":"unauthorised"`, c.name)
		}
	}
	// Parameters in another order are the same request.
	status, _ := get(t, server, http.MethodGet, "version=1&to=3&stream=order/7&from=1", sign(newKey, now, good))
	assert.Equal(t, http.StatusOK, status)
}

// A client with a key that the server does not have is told so and does not
// try again.
func TestWrongKey(t *testing.T) {
	server := serve(t, httpreplay.ServerConfig{Source: logOf(3)})
	_, err := client(t, server, httpreplay.ClientConfig{Key: oldKey}).Fetch(t.Context(), ordering.Range{Stream: order, From: 1, To: 1})
	require.ErrorIs(t, err, httpreplay.ErrUnauthorised)
	assert.True(t, dispatcher.IsPermanent(err))
	var e *httpreplay.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, http.StatusUnauthorized, e.Status)
	assert.Equal(t, "unauthorised", e.Code)
	assert.ErrorContains(t, err, server.URL+"/replay?")
	assert.NotContains(t, err.Error(), string(oldKey.Secret))
}
