// Package strictjson checks untrusted JSON before encoding/json decodes it, which
// accepts ambiguous texts, and may turn a few bytes into a large value.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits bounds a text.
type Limits struct {
	// Depth bounds the nesting of arrays and objects.
	Depth int
	// Members bounds the elements of an array and the members of an object.
	Members int
	// Texts is the name of the members whose objects may have any names, with any
	// values. All other names must consist of lower-case letters, digits and
	// underscores, since encoding/json ignores case and would take two names for
	// one field.
	Texts string
}

// Check returns an error if a JSON text is not one value, is not UTF-8 or has half
// a surrogate pair, which encoding/json would replace, has an object with a
// duplicate name, of which it would use the last, or exceeds a limit. It does not
// check numbers, and allocates memory for names only.
func Check(data []byte, l Limits) error {
	if !utf8.Valid(data) {
		return errors.New("the text is not UTF-8")
	}
	if !json.Valid(data) { // the checker relies on that
		return syntaxError(data)
	}
	c := checker{data: data, limits: l}
	return c.value(1, false)
}

// syntaxError returns the error of an invalid text, with its place.
func syntaxError(data []byte) error {
	var none json.RawMessage
	if err := json.Unmarshal(data, &none); err != nil {
		return err
	}
	return errors.New("not valid JSON")
}

// checker scans a valid text.
type checker struct {
	data   []byte
	at     int
	limits Limits
}

// value scans one value, with white space before it. texts allows any names.
func (c *checker) value(depth int, texts bool) error {
	switch c.next() {
	case '{':
		return c.object(depth, texts)
	case '[':
		return c.array(depth)
	case '"':
		_, err := c.text()
		return err
	}
	for c.at < len(c.data) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(c.data[c.at])) {
		c.at++ // a number, true, false or null
	}
	return nil
}

// next skips white space and returns the byte behind it.
func (c *checker) next() byte {
	for {
		switch b := c.data[c.at]; b {
		case ' ', '\t', '\r', '\n':
			c.at++
		default:
			return b
		}
	}
}

func (c *checker) array(depth int) error {
	if depth > c.limits.Depth {
		return c.tooDeep()
	}
	c.at++
	for n := 0; c.next() != ']'; n++ {
		if n == c.limits.Members {
			return fmt.Errorf("more than %d elements of an array, at byte %d", n, c.at)
		}
		if err := c.value(depth+1, false); err != nil {
			return err
		}
		if c.next() == ',' {
			c.at++
		}
	}
	c.at++
	return nil
}

func (c *checker) object(depth int, texts bool) error {
	if depth > c.limits.Depth {
		return c.tooDeep()
	}
	c.at++
	var names names
	for n := 0; c.next() != '}'; n++ {
		if n == c.limits.Members {
			return fmt.Errorf("more than %d members of an object, at byte %d", n, c.at)
		}
		name, err := c.text()
		if err != nil {
			return err
		}
		if !texts && !isField(name) {
			return fmt.Errorf("the name %.80q has other characters than a to z, 0 to 9 and _", name)
		}
		if !names.add(name) {
			return fmt.Errorf("the name %.80q occurs twice in an object", name)
		}
		c.next()
		c.at++ // the colon
		if err := c.value(depth+1, !texts && string(name) == c.limits.Texts); err != nil {
			return err
		}
		if c.next() == ',' {
			c.at++
		}
	}
	c.at++
	return nil
}

func (c *checker) tooDeep() error {
	return fmt.Errorf("arrays and objects more than %d deep, at byte %d", c.limits.Depth, c.at)
}

// text scans a string and returns its value.
func (c *checker) text() ([]byte, error) {
	c.at++ // the quotation mark
	start, escaped := c.at, false
	for c.data[c.at] != '"' {
		if c.data[c.at] != '\\' {
			c.at++
			continue
		}
		escaped = true
		if c.data[c.at+1] != 'u' {
			c.at += 2
			continue
		}
		r := hex4(c.data[c.at+2:])
		c.at += 6
		if !utf16.IsSurrogate(r) {
			continue
		}
		var low rune
		if bytes.HasPrefix(c.data[c.at:], []byte(`\u`)) {
			low = hex4(c.data[c.at+2:])
		}
		if utf16.DecodeRune(r, low) == utf8.RuneError {
			return nil, fmt.Errorf("half a surrogate pair, at byte %d", c.at-6)
		}
		c.at += 6
	}
	raw := c.data[start:c.at]
	c.at++
	if !escaped {
		return raw, nil
	}
	var said string
	err := json.Unmarshal(c.data[start-1:c.at], &said)
	return []byte(said), err
}

// hex4 parses four hexadecimal digits of a valid text.
func hex4(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 32)
	return rune(n)
}

func isField(name []byte) bool {
	for _, b := range name {
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '_' {
			return false
		}
	}
	return true
}

// names is the set of names of an object.
type names struct {
	first [12][]byte // searched linearly; no object of the protocols has more fields
	n     int
	more  map[string]struct{}
}

// add adds a name and reports whether it is new.
func (s *names) add(name []byte) bool {
	for _, other := range s.first[:min(s.n, len(s.first))] {
		if bytes.Equal(other, name) {
			return false
		}
	}
	if s.n++; s.n <= len(s.first) {
		s.first[s.n-1] = name
		return true
	}
	if _, twice := s.more[string(name)]; twice {
		return false
	}
	if s.more == nil {
		s.more = map[string]struct{}{}
	}
	s.more[string(name)] = struct{}{}
	return true
}
