package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// keyHeader names the header with the ID of a message, for senders that do not write
// the body themselves.
const keyHeader = "Idempotency-Key"

// identify gives a message the ID of its request's Idempotency-Key header, if there
// is one. The header means the same as "id" in the body.
func identify(m *book.Message, h http.Header) error {
	values := h.Values(keyHeader)
	switch len(values) {
	case 0:
		return nil
	case 1:
	default:
		return errors.New(keyHeader + " is given twice: send it once")
	}
	key, err := parseKey(values[0])
	if err != nil {
		return fmt.Errorf("%s %.80q: %w", keyHeader, values[0], err)
	}
	if m.ID != "" && m.ID != key {
		return fmt.Errorf("%s %.80q and \"id\" %.80q differ: send one of them", keyHeader, key, m.ID)
	}
	m.ID = key
	return m.Validate()
}

// parseKey reads the value of the header: a text, or one in quotation marks, as the
// IETF's draft has it. Both forms mean the same.
func parseKey(value string) (string, error) {
	key := value
	if quoted, ok := strings.CutPrefix(value, `"`); ok {
		if key, ok = strings.CutSuffix(quoted, `"`); !ok {
			return "", errors.New("the closing quotation mark is missing")
		}
	}
	switch {
	case key == "":
		return "", errors.New("empty: give each message a key of its own")
	case strings.ContainsAny(key, `"\`):
		return "", errors.New("has a quotation mark or a backslash: choose a key without")
	}
	return key, nil
}
