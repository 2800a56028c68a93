package book

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// CheckText reports whether text means the same to everybody: whoever reads bytes
// that are no UTF-8 puts one and the same sign in the place of different ones, and
// two names become one.
func CheckText(text string) error {
	switch {
	case !utf8.ValidString(text):
		return errNotUTF8
	case strings.ContainsRune(text, 0):
		return errNUL
	}
	return nil
}

// checkName does so for a name, which has no control characters either.
func checkName(text string, most int) error {
	switch {
	case utf8.RuneCountInString(text) > most:
		return fmt.Errorf("longer than %d characters: use a shorter one", most)
	case !utf8.ValidString(text):
		return errNotUTF8
	case strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("has a control character: remove it")
	}
	return nil
}

var (
	errNotUTF8   = errors.New("not UTF-8: convert the input")
	errNUL       = errors.New("has a NUL: remove it")
	errSurrogate = errors.New("has half of a surrogate pair, which is no character: correct it")
)

// checkStrings does so for the strings of a JSON text, in which [encoding/json]
// replaces in silence what is none. What is no JSON is for others to see.
func checkStrings(data []byte) error {
	field := ""
	for {
		begin := bytes.IndexByte(data, '"')
		if begin < 0 {
			break
		}
		if err := CheckText(string(data[:begin])); err != nil {
			return err
		}
		data = data[begin+1:]
		end, err := checkString(data)
		text := data[:end]
		if data = data[min(end+1, len(data)):]; bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte(":")) {
			field = strings.ToValidUTF8(string(text), "\uFFFD")
		}
		if err != nil {
			return fmt.Errorf("field %.80q: %w", field, err)
		}
	}
	return CheckText(string(data))
}

// checkString checks a string up to its end, which it returns: that of the data
// if it has none.
func checkString(data []byte) (end int, err error) {
	for i := 0; i < len(data); {
		switch c := data[i]; {
		case c == '"':
			return i, err
		case c == '\\' && i+1 < len(data) && data[i+1] != 'u':
			i += 2
		case c == '\\':
			unit := unitAt(data[i:])
			i += 6
			switch {
			case unit == 0 && err == nil:
				err = errNUL
			case utf16.IsSurrogate(unit) && utf16.DecodeRune(unit, unitAt(data[min(i, len(data)):])) != utf8.RuneError:
				i += 6
			case utf16.IsSurrogate(unit) && err == nil:
				err = errSurrogate
			}
		case c < utf8.RuneSelf:
			if c == 0 && err == nil {
				err = errNUL
			}
			i++
		default:
			r, size := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && size == 1 && err == nil {
				err = errNotUTF8
			}
			i += size
		}
	}
	return len(data), err
}

// unitAt returns the UTF-16 unit of an escape that data begins with, or -1.
func unitAt(data []byte) rune {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(unit)
}
