package inspect_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/interlock-go/interlock/dispatcher/inspect"
	"github.com/interlock-go/interlock/dispatcher/view"
)

func TestPassword(t *testing.T) {
	for name, test := range map[string]struct {
		password        inspect.Password
		user, given     string
		mayLook, mayAct bool
	}{
		"right":             {"secret", "ann", "secret", true, true},
		"without a name":    {"secret", "", "secret", true, false},
		"wrong":             {"secret", "ann", "Secret", false, false},
		"none given":        {"secret", "ann", "", false, false},
		"nobody may":        {"", "ann", "", false, false},
		"nobody, and a try": {"", "ann", "x", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.SetBasicAuth(test.user, test.given)
			w := httptest.NewRecorder()
			test.password.Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })).ServeHTTP(w, r)
			if test.mayLook {
				assert.Equal(t, http.StatusTeapot, w.Code)
			} else {
				assert.Equal(t, http.StatusUnauthorized, w.Code)
				assert.Contains(t, w.Header().Get("WWW-Authenticate"), "Basic")
			}
			who, err := test.password.Authorize(r, "transfers", view.Action{})
			if test.mayAct {
				assert.NoError(t, err)
				assert.Equal(t, "ann", who)
			} else {
				assert.Error(t, err)
				assert.Empty(t, who)
			}
		})
	}
}
