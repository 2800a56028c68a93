package inspect

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"

	"github.com/interlock-go/interlock/dispatcher/view"
)

// Password protects a page in the simplest way, where the service has nothing better: with
// one password for all, by HTTP Basic authentication, so that it needs TLS or an address
// of the machine itself. The user name is that of the operator. "" lets nobody pass.
type Password string

// Guard returns a handler that answers who gives the password, and asks others for it.
func (p Password) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := p.who(r); !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="Interlock", charset="UTF-8"`)
			http.Error(w, "the password is missing or wrong", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Authorize is for [Config.Authorize]: who gives the password and a user name may act.
func (p Password) Authorize(r *http.Request, _ string, _ view.Action) (who string, err error) {
	who, ok := p.who(r)
	if !ok {
		return "", errors.New("the password is missing or wrong")
	}
	if who == "" {
		return "", errors.New("log in with a user name: it is kept with the action")
	}
	return who, nil
}

func (p Password) who(r *http.Request) (who string, ok bool) {
	who, given, _ := r.BasicAuth()
	want, got := sha256.Sum256([]byte(p)), sha256.Sum256([]byte(given))
	return who, p != "" && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}
