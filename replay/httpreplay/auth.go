package httpreplay

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/ordering"
)

const (
	scheme = "Interlock-HMAC-SHA256"
	// minSecret is the length of the shortest secret, in bytes: as long as
	// the hash.
	minSecret = sha256.Size
	maxKeyID  = 64
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

func (k Key) validate() error {
	allowed := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r)
	}
	switch {
	case k.ID == "" || len(k.ID) > maxKeyID || strings.ContainsFunc(k.ID, func(r rune) bool { return !allowed(r) }):
		return fmt.Errorf("key ID %.80q: use 1 to %d letters, digits, dots, dashes and underscores", k.ID, maxKeyID)
	case len(k.Secret) < minSecret:
		return fmt.Errorf("key %q: the secret is %d bytes: draw at least %d at random", k.ID, len(k.Secret), minSecret)
	}
	return nil
}

// authorization returns the header of a request.
func (k Key) authorization(asked ordering.Range, now time.Time) string {
	seconds := strconv.FormatInt(now.Unix(), 10)
	return fmt.Sprintf("%s key=%s,time=%s,signature=%x", scheme, k.ID, seconds, k.sign(asked, seconds))
}

func (k Key) sign(asked ordering.Range, seconds string) []byte {
	mac := hmac.New(sha256.New, k.Secret)
	fmt.Fprintf(mac, "interlock-replay-%d\nGET\n%s\n%s", Version, seconds, query(asked))
	return mac.Sum(nil)
}

// Errors for the server's log and the client's eyes; which key and what
// signature would be right they do not tell.
var (
	errUnsigned  = errors.New("the request is not signed: Authorization is to be " + scheme + " key=ID,time=UNIX,signature=HEX")
	errSignature = errors.New("unknown key or wrong signature")
	errClock     = errors.New("the request's time is too far from the server's: compare the clocks")
)

// verify checks the header of a request against the keys.
func verify(header string, asked ordering.Range, keys []Key, now time.Time, skew time.Duration) error {
	s, err := parseAuthorization(header)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.ID != s.key {
			continue
		}
		if !hmac.Equal(k.sign(asked, strconv.FormatInt(s.time, 10)), s.signature) {
			return errSignature
		}
		if now.Sub(time.Unix(s.time, 0)).Abs() > skew {
			return errClock
		}
		return nil
	}
	return errSignature
}

type signature struct {
	key       string
	time      int64
	signature []byte
}

// parseAuthorization reads what authorization writes.
func parseAuthorization(header string) (s signature, err error) {
	parameters, ok := strings.CutPrefix(header, scheme+" ")
	if !ok {
		return s, errUnsigned
	}
	parts := strings.SplitN(parameters, ",", 4)
	if len(parts) != 3 {
		return s, errUnsigned
	}
	key, ok1 := strings.CutPrefix(parts[0], "key=")
	seconds, ok2 := strings.CutPrefix(parts[1], "time=")
	text, ok3 := strings.CutPrefix(parts[2], "signature=")
	if !ok1 || !ok2 || !ok3 || len(text) != 2*sha256.Size {
		return s, errUnsigned
	}
	if s.time, err = strconv.ParseInt(seconds, 10, 64); err != nil {
		return s, errUnsigned
	}
	if s.signature, err = hex.DecodeString(text); err != nil {
		return s, errUnsigned
	}
	s.key = key
	return s, nil
}
