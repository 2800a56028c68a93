// Package strictjson looks at JSON of others before encoding/json makes values
// of it, which is lenient where two texts that look alike should not become one,
// and generous where a few bytes become a large value.
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

// Limits are what a text may have.
type Limits struct {
	// Depth is how deep arrays and objects may be in each other.
	Depth int
	// Members is the most elements of an array and members of an object.
	Members int
	// Texts is the name of the members whose objects have any names, with any
	// value; all other names are of lower-case letters, digits and underscores,
	// so that encoding/json, which does not tell upper and lower case apart,
	// takes no two names for one field.
	Texts string
}

// Check reports what is wrong with a JSON text: it is not one value, it is not
// UTF-8 or has half a surrogate pair, which encoding/json would replace, an
// object has a name twice, of which it would take the last, or a limit is
// passed. It does not look at numbers, and takes memory for names only.
func Check(data []byte, l Limits) error {
	if !utf8.Valid(data) {
		return errors.New("the text is not UTF-8")
	}
	if !json.Valid(data) { // what follows need not look for that
		return syntaxError(data)
	}
	c := checker{data: data, limits: l}
	return c.value(1, false)
}

// syntaxError says where a text that is not valid has its fault.
func syntaxError(data []byte) error {
	var none json.RawMessage
	if err := json.Unmarshal(data, &none); err != nil {
		return err
	}
	return errors.New("not valid JSON")
}

// checker goes through a valid text.
type checker struct {
	data   []byte
	at     int
	limits Limits
}

// value goes over one value, with what is before it. In an object of texts any
// name will do.
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
			return fmt.Errorf("the name %.80q is there twice in an object", name)
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

// text goes over a string and returns what it says.
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

// hex4 reads four hexadecimal digits of a valid text.
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

// names are those of an object.
type names struct {
	first [12][]byte // found by comparing; no object of the protocols has more fields
	n     int
	more  map[string]struct{}
}

// add reports whether the name was not there yet.
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
