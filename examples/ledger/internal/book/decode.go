package book

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Decode reads a message from its JSON form and validates it. It accepts what
// the schema describes and nothing else: no unknown, repeated, missing or null
// field, names only as they are written there, and no text that could be taken
// for another one. With money, a field that is quietly ignored is a mistake that is
// found too late.
func Decode(data []byte) (*Message, error) {
	if err := checkStrings(data); err != nil {
		return nil, err
	}
	names, err := checkShape(data)
	if err != nil {
		return nil, err
	}
	m := new(Message)
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(m); err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if m.ID == "" && slices.Contains(names, "id") {
		return nil, errors.New("\"id\" is empty: give each message an id of its own, or none")
	}
	for _, f := range fields { // one that is given and empty, say
		if op := operations[m.Op]; slices.Contains(names, f.name) && (op.needs|op.takes)&f.bit == 0 {
			return nil, fmt.Errorf("%s does not take %q: remove it", m.Op, f.name)
		}
	}
	return m, nil
}

// ErrMore is the error of [Decode] for a message with something behind it.
var ErrMore = errors.New("more text after the message: write one JSON object")

// required lists the fields that an object must have, by the name of the field
// that holds the object; "" is the message itself.
var required = map[string][]string{
	"":         {"op"},
	"gets":     {"amount"},
	"at_least": {"amount"},
	"postings": {"account", "amount"},
	"expect":   {"account", "balance"},
}

var known = []string{
	"op", "account", "client", "from", "to", "amount", "commodity", "gets", "at_least", "postings",
	"expect", "reject", "sequence", "id", "note", "balance", "scope", "tolerance",
}

// checkShape checks what encoding/json lets pass, and returns the names of the
// message's fields.
func checkShape(data []byte) (names []string, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	token, err := decoder.Token()
	switch {
	case err == io.EOF:
		return nil, errors.New("empty: a message is a JSON object")
	case err != nil:
		return nil, fmt.Errorf("not JSON: %w", err)
	case token != json.Delim('{'):
		return nil, fmt.Errorf("a message is a JSON object, not %.40v", token)
	}
	if names, err = checkObject(decoder, "", 1); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, ErrMore
	}
	return names, nil
}

// checkObject checks the rest of an object that stands in the field holder at
// the given level, and returns the names of its fields.
func checkObject(decoder *json.Decoder, holder string, level int) (seen []string, err error) {
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		name, _ := token.(string)
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("unknown field %.80q: see the schema", name)
		}
		if slices.Contains(seen, name) {
			return nil, fmt.Errorf("field %q is given twice", name)
		}
		seen = append(seen, name)
		if err := checkValue(decoder, name, level+1); err != nil {
			return nil, err
		}
	}
	for _, name := range required[holder] {
		if !slices.Contains(seen, name) {
			return nil, fmt.Errorf("%q is missing%s", name, in(holder))
		}
	}
	_, err = decoder.Token()
	return seen, wrapSyntax(err)
}

// maxLevel is that of a field of an object in a list in the message.
const maxLevel = 4

func checkValue(decoder *json.Decoder, name string, level int) error {
	token, err := decoder.Token()
	switch {
	case err != nil:
		return fmt.Errorf("not JSON: %w", err)
	case token == nil:
		return fmt.Errorf("field %q is null: leave it out", name)
	case level > maxLevel:
		return fmt.Errorf("field %q is nested too deeply: see the schema", name)
	case token == json.Delim('{'):
		_, err = checkObject(decoder, name, level)
		return err
	case token == json.Delim('['):
		for decoder.More() {
			if err := checkValue(decoder, name, level+1); err != nil {
				return err
			}
		}
		_, err = decoder.Token()
		return wrapSyntax(err)
	}
	return nil
}

func in(holder string) string {
	if holder == "" {
		return ""
	}
	return fmt.Sprintf(" in %q", holder)
}

func wrapSyntax(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("not JSON: %w", err)
}
