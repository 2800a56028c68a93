package lockkeys

import (
	"encoding"
	"strings"
	"unicode/utf8"
)

var (
	_ encoding.TextMarshaler   = Key{}
	_ encoding.TextUnmarshaler = (*Key)(nil)
)

// Parse reads the text form of a key: segments joined by '/', as in
// "client/42/account/7", with no slash at either end; "/" alone is the root.
// Within a segment "%XX" is the byte with that hexadecimal value, so "%2F" is a
// slash and "%25" a percent sign. Any other byte stands for itself.
//
// For every key, Parse(k.String()) returns k. The error is a [*KeyError].
func Parse(text string) (Key, error) {
	if text == "/" {
		return Key{}, nil
	}
	if key, ok := parsePlain(text); ok {
		return key, nil
	}
	return parseAny(text)
}

func parseAny(text string) (Key, error) {
	segments := strings.SplitN(text, "/", MaxDepth+1)
	if len(segments) > MaxDepth {
		return Key{}, &KeyError{Input: text, Segment: MaxDepth, Reason: ErrTooDeep}
	}
	for i, s := range segments {
		raw, ok := unescape(s)
		if !ok {
			return Key{}, &KeyError{Input: text, Segment: i, Reason: ErrBadEscape}
		}
		if err := checkSegment(raw, i); err != nil {
			return Key{}, &KeyError{Input: text, Segment: i, Reason: err.(*KeyError).Reason}
		}
		segments[i] = raw
	}
	return Key{strings.Join(segments, sep)}, nil
}

// parsePlain parses text that has nothing to unescape and nothing to complain about,
// with one allocation; it is not ok for any other.
func parsePlain(text string) (key Key, ok bool) {
	depth := 1
	for i := range len(text) {
		switch text[i] {
		case '%', 0:
			return Key{}, false
		case '/':
			if depth++; i == 0 || text[i-1] == '/' {
				return Key{}, false
			}
		}
	}
	if text == "" || text[len(text)-1] == '/' || depth > MaxDepth {
		return Key{}, false
	}
	return Key{strings.ReplaceAll(text, "/", sep)}, true
}

// MustParse is [Parse] for text that is a constant: it panics on an error.
func MustParse(text string) Key {
	k, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return k
}

// String returns the text form that [Parse] reads. Slashes, percent signs,
// characters that do not print and bytes that are not UTF-8 are written as
// "%XX", so the text is safe in a log line. A key has the same text for ever, so
// that it can be what something is known by in a database.
func (k Key) String() string {
	if k.path == "" {
		return "/"
	}
	return escape(k.path)
}

// MarshalText returns the text form, for JSON and similar encodings.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the text form; on an error it leaves k unchanged.
func (k *Key) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err == nil {
		*k = parsed
	}
	return err
}

const hexDigits = "0123456789ABCDEF"

func escape(path string) string {
	var b strings.Builder
	b.Grow(len(path))
	for len(path) > 0 {
		r, size := utf8.DecodeRuneInString(path)
		switch {
		case path[0] == sep[0]:
			b.WriteByte('/')
		case r == '/' || r == '%' || isHidden(r) || r == utf8.RuneError && size == 1:
			for _, c := range []byte(path[:size]) {
				b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
			}
		default:
			b.WriteString(path[:size])
		}
		path = path[size:]
	}
	return b.String()
}

func unescape(segment string) (raw string, ok bool) {
	if !strings.Contains(segment, "%") {
		return segment, true
	}
	var b strings.Builder
	b.Grow(len(segment))
	for i := 0; i < len(segment); i++ {
		if segment[i] != '%' {
			b.WriteByte(segment[i])
			continue
		}
		if i+2 >= len(segment) {
			return "", false
		}
		hi, okHi := hexValue(segment[i+1])
		lo, okLo := hexValue(segment[i+2])
		if !okHi || !okLo {
			return "", false
		}
		b.WriteByte(hi<<4 | lo)
		i += 2
	}
	return b.String(), true
}

func hexValue(c byte) (value byte, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
