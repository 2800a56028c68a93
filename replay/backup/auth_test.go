package backup_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/replay/backup"
)

const goodBody = `{"version":1,"events":[` + goodEvent + `]}`

// sign makes a header by the words of the package's doc.
func sign(key backup.Key, at time.Time, body string) string {
	mac := hmac.New(sha256.New, key.Secret)
	fmt.Fprintf(mac, "interlock-backup-1\nPOST\n%d\n%x", at.Unix(), sha256.Sum256([]byte(body)))
	return fmt.Sprintf("Interlock-HMAC-SHA256 key=%s,time=%d,signature=%x", key.ID, at.Unix(), mac.Sum(nil))
}

func postAs(t *testing.T, h http.Handler, authorization string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(goodBody))
	r.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return ask(t, h, r)
}

func TestAuthorisation(t *testing.T) {
	keys := handler(t, backup.HandlerConfig{Sink: applies, Keys: []backup.Key{oldKey, newKey}})
	tokens := handler(t, backup.HandlerConfig{Sink: applies, Tokens: []backup.Token{token, token + "2"}})
	both := handler(t, backup.HandlerConfig{Sink: applies, Keys: []backup.Key{newKey}, Tokens: []backup.Token{token}})
	now := time.Now()
	stranger := backup.Key{ID: "stranger", Secret: newKey.Secret}
	forged := backup.Key{ID: newKey.ID, Secret: oldKey.Secret}
	for _, c := range []struct {
		name    string
		handler http.Handler
		header  string
		message string // "" if it is right
	}{
		{"new key", keys, sign(newKey, now, goodBody), ""},
		{"old key", keys, sign(oldKey, now, goodBody), ""},
		{"a clock that is a little late", keys, sign(newKey, now.Add(-50*time.Second), goodBody), ""},
		{"unsigned", keys, "", "not signed"},
		{"a token where none is known", keys, "Bearer " + string(token), "not signed"},
		{"unknown key", keys, sign(stranger, now, goodBody), "unknown key or wrong signature"},
		{"wrong secret", keys, sign(forged, now, goodBody), "unknown key or wrong signature"},
		{"signed for another body", keys, sign(newKey, now, goodBody+" "), "unknown key or wrong signature"},
		{"overheard long ago", keys, sign(newKey, now.Add(-2*time.Minute), goodBody), "compare the clocks"},
		{"from the future", keys, sign(newKey, now.Add(2*time.Minute), goodBody), "compare the clocks"},
		{"cut", keys, sign(newKey, now, goodBody)[:90], "not signed"},

		{"token", tokens, "Bearer " + string(token), ""},
		{"another token", tokens, "Bearer " + string(token) + "2", ""},
		{"no token", tokens, "", "has no token"},
		{"unknown token", tokens, "Bearer " + string(token) + "3", "unknown token"},
		{"empty token", tokens, "Bearer ", "unknown token"},
		{"the beginning of a token", tokens, "Bearer " + string(token[:20]), "unknown token"},
		{"a signature where no key is known", tokens, sign(newKey, now, goodBody), "has no token"},

		{"signed, where both will do", both, sign(newKey, now, goodBody), ""},
		{"token, where both will do", both, "Bearer " + string(token), ""},
		{"wrong secret, where both will do", both, sign(forged, now, goodBody), "unknown key or wrong signature"},
		{"wrong token, where both will do", both, "Bearer nothing", "unknown token"},
		{"neither", both, "", "not signed"},
	} {
		response, body := postAs(t, c.handler, c.header)
		if c.message == "" {
			assert.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", c.name, body)
			continue
		}
		assert.Equal(t, http.StatusUnauthorized, response.StatusCode, c.name)
		assert.Contains(t, body, `"code":"unauthorised"`, c.name)
		assert.Contains(t, body, c.message, c.name)
		assert.NotEmpty(t, response.Header.Values("WWW-Authenticate"), c.name)
		assert.NotContains(t, body, string(token), c.name)
	}
	response, _ := postAs(t, both, "")
	assert.Equal(t, []string{"Interlock-HMAC-SHA256", "Bearer"}, response.Header.Values("WWW-Authenticate"))
}

// A sender whose key or token the receiver does not know is told so. That is
// not its events' fault: they are to be sent again.
func TestWrongKey(t *testing.T) {
	server := serve(t, handler(t, backup.HandlerConfig{Sink: applies, Keys: []backup.Key{newKey}, Tokens: []backup.Token{token}}))
	for _, cfg := range []backup.ClientConfig{{Key: oldKey}, {Token: token + "2"}} {
		err := client(t, server, cfg).Publish(t.Context(), event(1))
		require.ErrorIs(t, err, backup.ErrUnauthorised)
		assert.False(t, dispatcher.IsPermanent(err))
		var e *backup.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, http.StatusUnauthorized, e.Status)
		assert.Equal(t, "unauthorised", e.Code)
		assert.ErrorContains(t, err, server.URL+"/events")
		assert.NotContains(t, err.Error(), string(oldKey.Secret))
		assert.NotContains(t, err.Error(), string(token))
	}
	require.NoError(t, client(t, server, backup.ClientConfig{Token: token}).Publish(t.Context(), event(1)))
	require.NoError(t, client(t, server, backup.ClientConfig{Key: newKey}).Publish(t.Context(), event(1)))
}
