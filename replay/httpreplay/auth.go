package httpreplay

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/interlock-go/interlock/internal/httpauth"
	"github.com/interlock-go/interlock/ordering"
)

// Key is a secret shared by clients and servers, with an ID that tells which one
// was used.
type Key struct {
	// ID is 1 to 64 letters, digits, dots, dashes and underscores.
	ID string
	// Secret is at least 32 bytes, drawn at random.
	Secret []byte
}

// String returns the ID only, so that logs do not have the secret.
func (k Key) String() string { return "key " + k.ID }

// GoString is String, for %#v.
func (k Key) GoString() string { return k.String() }

// LogValue is String, for log/slog, whose JSON would have the secret.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

func (k Key) validate() error { return httpauth.Key(k).Validate() }

// authorization returns the header of a request.
func (k Key) authorization(asked ordering.Range, now time.Time) string {
	return httpauth.Key(k).Authorization(signed(asked), now)
}

// signed returns the signed parts of a request.
func signed(asked ordering.Range) httpauth.Request {
	return httpauth.Request{
		Protocol: fmt.Sprintf("interlock-replay-%d", Version),
		Method:   http.MethodGet,
		Content:  query(asked),
	}
}

// verify checks the header of a request against the keys, and returns the index
// of its key.
func verify(header string, asked ordering.Range, keys []httpauth.Key, now time.Time, skew time.Duration) (int, error) {
	s, err := httpauth.Parse(header)
	if err != nil {
		return 0, err
	}
	return s.Verify(signed(asked), keys, now, skew)
}
