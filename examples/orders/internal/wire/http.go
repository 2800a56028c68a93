package wire

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// keyHeader has the key of a call.
const keyHeader = "Idempotency-Key"

// maxBody bounds a request and an answer.
const maxBody = 1 << 20

// Handler serves a service over HTTP: POST /<method>, with the key in the header
// Idempotency-Key. A refusal is 422, a failure 503. If token is not empty, a request
// needs it as its bearer token.
func Handler(s Service, token string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{method}", func(w http.ResponseWriter, r *http.Request) {
		if !Authorized(r, token) {
			http.Error(w, "the bearer token is wrong", http.StatusUnauthorized)
			return
		}
		key := r.Header.Get(keyHeader)
		if key == "" {
			http.Error(w, "the header "+keyHeader+" is missing", http.StatusBadRequest)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		answer, err := s.handle(r.Context(), r.PathValue("method"), key, body)
		var refusal *Refusal
		switch {
		case err == nil:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(answer)
		case errors.As(err, &refusal):
			http.Error(w, refusal.Reason, http.StatusUnprocessableEntity)
		case errors.Is(err, ErrNoMethod):
			http.Error(w, err.Error(), http.StatusNotFound)
		default:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

// Authorized reports whether a request has the token, in constant time; without one all
// requests do.
func Authorized(r *http.Request, token string) bool {
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token == "" || bearer && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// Guard lets requests with the token pass, as [Authorized] says.
func Guard(next http.Handler, token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Authorized(r, token) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the bearer token is wrong", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// HTTP calls a service that [Handler] serves at a URL.
func HTTP(client *http.Client, url, token string) Caller {
	return &remote{client, strings.TrimSuffix(url, "/"), token}
}

type remote struct {
	client     *http.Client
	url, token string
}

func (c *remote) Call(ctx context.Context, method, key string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set(keyHeader, key)
	r.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err != nil {
		return err
	}
	switch answer.StatusCode {
	case http.StatusOK:
		return json.Unmarshal(text, out)
	case http.StatusUnprocessableEntity:
		return &Refusal{strings.TrimSpace(string(text))}
	}
	return fmt.Errorf("%s %s: %s: %.200s", c.url, method, answer.Status, strings.TrimSpace(string(text)))
}
