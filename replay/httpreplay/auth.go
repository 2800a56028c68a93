package httpreplay

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/interlock-go/interlock/internal/httpauth"
	"github.com/interlock-go/interlock/ordering"
)

// Key is a secret that clients and servers share, with a name that says which
// one was used.
type Key struct {
	// ID is 1 to 64 letters, digits, dots, dashes and underscores.
	ID string
	// Secret is at least 32 bytes, drawn at random.
	Secret []byte
}

// String returns the ID, so that a secret does not get into a log.
func (k Key) String() string { return "key " + k.ID }

// GoString is as String, for %#v.
func (k Key) GoString() string { return k.String() }

// LogValue is as String, for log/slog, whose JSON would have the secret.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

func (k Key) validate() error { return httpauth.Key(k).Validate() }

// authorization returns the header of a request.
func (k Key) authorization(asked ordering.Range, now time.Time) string {
	return httpauth.Key(k).Authorization(signed(asked), now)
}

// signed is what the signature of a request is for.
func signed(asked ordering.Range) httpauth.Request {
	return httpauth.Request{
		Protocol: fmt.Sprintf("interlock-replay-%d", Version),
		Method:   http.MethodGet,
		Content:  query(asked),
	}
}

// verify checks the header of a request against the keys, and returns the index
// of the one that it was signed with.
func verify(header string, asked ordering.Range, keys []httpauth.Key, now time.Time, skew time.Duration) (int, error) {
	s, err := httpauth.Parse(header)
	if err != nil {
		return 0, err
	}
	return s.Verify(signed(asked), keys, now, skew)
}
