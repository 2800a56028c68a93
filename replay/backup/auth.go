package backup

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/interlock-go/interlock/internal/httpauth"
)

// Key is a secret shared by sender and receiver, with an ID that tells which one
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

// authorization returns the header of a request with this body.
func (k Key) authorization(body []byte, now time.Time) string {
	return httpauth.Key(k).Authorization(signed(body), now)
}

// signed returns the signed parts of a request.
func signed(body []byte) httpauth.Request {
	return httpauth.Request{
		Protocol: fmt.Sprintf("interlock-backup-%d", Version),
		Method:   http.MethodPost,
		Content:  fmt.Sprintf("%x", sha256.Sum256(body)),
	}
}

// bearer is the scheme of tokens.
const bearer = "Bearer "

// minToken is the length of the shortest token, in bytes.
const minToken = 32

// Token is a bearer token: at least 32 random characters of those that RFC 6750
// allows, which are letters, digits and "-._~+/=". A token in an intercepted
// request can be used from then on: use TLS.
type Token string

// String hides the token, so that logs do not have it.
func (t Token) String() string { return fmt.Sprintf("token of %d bytes", len(t)) }

// GoString is String, for %#v.
func (t Token) GoString() string { return t.String() }

// LogValue is String, for log/slog, whose JSON would have the token.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

func (t Token) validate() error {
	allowed := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._~+/=", r)
	}
	switch {
	case len(t) < minToken:
		return fmt.Errorf("%d characters: draw at least %d at random", len(t), minToken)
	case strings.ContainsFunc(string(t), func(r rune) bool { return !allowed(r) }):
		return errors.New("use letters, digits and -._~+/= only")
	}
	return nil
}

// Errors that are logged by the receiver and returned to the sender.
var (
	errNoToken = errors.New("the request has no token: set the header Authorization to Bearer TOKEN")
	errToken   = errors.New("unknown token")
)

// guard checks who may post. Without keys and tokens everybody may.
type guard struct {
	keys   []httpauth.Key
	tokens [][sha256.Size]byte // hashes, so that comparing does not reveal lengths
	skew   time.Duration
}

func newGuard(keys []Key, tokens []Token, skew time.Duration) guard {
	g := guard{skew: skew}
	for _, k := range keys {
		g.keys = append(g.keys, httpauth.Key(k))
	}
	for _, t := range tokens {
		g.tokens = append(g.tokens, sha256.Sum256([]byte(t)))
	}
	return g
}

// senders returns the number of keys and tokens.
func (g guard) senders() int { return len(g.keys) + len(g.tokens) }

// admit checks the header of a request. Call verify with the body when it was
// read; it returns the index of the key or token. For a signature, admit checks
// only the form and the time; whether there is such a key is not revealed before
// verify, nor by the costs of reading.
func (g guard) admit(header string) (verify func(body []byte) (who int, err error), err error) {
	pass := func(who int) func([]byte) (int, error) { return func([]byte) (int, error) { return who, nil } }
	token, isToken := strings.CutPrefix(header, bearer)
	switch {
	case g.senders() == 0:
		return pass(0), nil
	case g.tokens != nil && isToken:
		index, err := g.checkToken(token)
		return pass(len(g.keys) + index), err
	case g.keys == nil:
		return nil, errNoToken
	}
	signature, err := httpauth.Parse(header)
	if err == nil {
		err = signature.Fresh(time.Now(), g.skew)
	}
	return func(body []byte) (int, error) { return signature.Verify(signed(body), g.keys, time.Now(), g.skew) }, err
}

func (g guard) checkToken(token string) (index int, err error) {
	hash, found := sha256.Sum256([]byte(token)), 0
	for i, t := range g.tokens {
		is := subtle.ConstantTimeCompare(hash[:], t[:])
		index, found = subtle.ConstantTimeSelect(is, i, index), found|is
	}
	if found == 0 {
		return 0, errToken
	}
	return index, nil
}

// challenge returns the values of the header WWW-Authenticate.
func (g guard) challenge() []string {
	var list []string
	if g.keys != nil {
		list = append(list, httpauth.Scheme)
	}
	if g.tokens != nil {
		list = append(list, strings.TrimSpace(bearer))
	}
	return list
}
