// Package httpauth signs HTTP requests with a shared secret, and verifies such
// signatures.
package httpauth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// Scheme is the first word of the Authorization header.
	Scheme = "Interlock-HMAC-SHA256"
	// MinSecret is the length of the shortest secret, in bytes: as long as
	// the hash.
	MinSecret = sha256.Size
	// maxKeyID is the length of the longest ID of a key, in bytes.
	maxKeyID = 64
)

// Key is a secret with an ID.
type Key struct {
	ID     string
	Secret []byte
}

// Validate returns an error unless the ID has 1 to 64 letters, digits, dots, dashes
// and underscores, and the secret at least MinSecret bytes.
func (k Key) Validate() error {
	allowed := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r)
	}
	switch {
	case k.ID == "" || len(k.ID) > maxKeyID || strings.ContainsFunc(k.ID, func(r rune) bool { return !allowed(r) }):
		return fmt.Errorf("key ID %.80q: use 1 to %d letters, digits, dots, dashes and underscores", k.ID, maxKeyID)
	case len(k.Secret) < MinSecret:
		return fmt.Errorf("key %q: the secret is %d bytes: draw at least %d at random", k.ID, len(k.Secret), MinSecret)
	}
	return nil
}

// Request has the signed parts of a request.
type Request struct {
	Protocol string // with its version: "interlock-replay-1"
	Method   string
	Content  string // the content of the request, in a canonical form
}

// Authorization returns the header of a request, signed at a time.
func (k Key) Authorization(r Request, now time.Time) string {
	seconds := now.Unix()
	return fmt.Sprintf("%s key=%s,time=%d,signature=%x", Scheme, k.ID, seconds, k.sign(r, seconds))
}

func (k Key) sign(r Request, seconds int64) []byte {
	mac := hmac.New(sha256.New, k.Secret)
	fmt.Fprintf(mac, "%s\n%s\n%d\n%s", r.Protocol, r.Method, seconds, r.Content)
	return mac.Sum(nil)
}

// Errors that are logged by the server and returned to the client. They do not
// reveal which keys and signatures are right.
var (
	ErrUnsigned  = errors.New("the request is not signed: set the header Authorization to " + Scheme + " key=ID,time=UNIX,signature=HEX")
	ErrSignature = errors.New("unknown key or wrong signature")
	ErrClock     = errors.New("the request's time is too far from the server's: compare the clocks")
)

// Signature is a parsed header, to be verified.
type Signature struct {
	id    string
	time  int64 // in seconds since 1970
	bytes []byte
}

// Parse parses the result of Authorization. The error is ErrUnsigned. It does not
// check whether there is such a key: only Verify does, so that a client that cannot
// sign does not learn which keys there are.
func Parse(header string) (Signature, error) {
	parameters, ok := strings.CutPrefix(header, Scheme+" ")
	parts := strings.SplitN(parameters, ",", 4)
	if !ok || len(parts) != 3 {
		return Signature{}, ErrUnsigned
	}
	id, ok1 := strings.CutPrefix(parts[0], "key=")
	seconds, ok2 := strings.CutPrefix(parts[1], "time=")
	text, ok3 := strings.CutPrefix(parts[2], "signature=")
	if !ok1 || !ok2 || !ok3 || len(id) > maxKeyID || len(text) != 2*sha256.Size {
		return Signature{}, ErrUnsigned
	}
	s := Signature{id: id}
	var err error
	if s.time, err = strconv.ParseInt(seconds, 10, 64); err != nil {
		return Signature{}, ErrUnsigned
	}
	if s.bytes, err = hex.DecodeString(text); err != nil {
		return Signature{}, ErrUnsigned
	}
	return s, nil
}

// Fresh returns ErrClock unless the signature's time is within skew of now. Before
// Verify has succeeded that time is not authentic.
func (s Signature) Fresh(now time.Time, skew time.Duration) error {
	if now.Sub(time.Unix(s.time, 0)).Abs() > skew {
		return ErrClock
	}
	return nil
}

// Verify returns the index of the key with which the request was signed, within
// skew of now. There must be at least one key. The error is ErrSignature or
// ErrClock. An unknown key takes as long as a known one, and only a client that can
// sign learns that its clock is wrong.
func (s Signature) Verify(r Request, keys []Key, now time.Time, skew time.Duration) (index int, err error) {
	index = -1
	for i, k := range keys {
		if k.ID == s.id {
			index = i
		}
	}
	right := hmac.Equal(keys[max(index, 0)].sign(r, s.time), s.bytes)
	if !right || index < 0 {
		return 0, ErrSignature
	}
	return index, s.Fresh(now, skew)
}
