package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Decoder decodes one JSON value piece by piece, so that a value that is too large,
// or has too many elements, is refused before all of it is in memory. It holds one
// piece at a time.
type Decoder struct {
	decoder *json.Decoder
	limits  Limits // of each piece
	known   bool   // unknown fields are an error
	piece   json.RawMessage
}

// NewDecoder returns a decoder that reads from r. limits apply to each value read by
// Value. If known is set, unknown fields are an error.
func NewDecoder(r io.Reader, limits Limits, known bool) *Decoder {
	return &Decoder{decoder: json.NewDecoder(r), limits: limits, known: known}
}

// Object reads the next value, an object, and calls member with the name of each
// member; member must read the value. No name occurs twice.
func (d *Decoder) Object(member func(name string) error) error {
	if err := d.expect('{', "an object"); err != nil {
		return err
	}
	var seen names
	for d.decoder.More() {
		token, err := d.decoder.Token()
		if err != nil {
			return err
		}
		name, ok := token.(string)
		if !ok {
			return fmt.Errorf("%v instead of a name", token)
		}
		if seen.n == d.limits.Members {
			return fmt.Errorf("more than %d members of an object", seen.n)
		}
		if !seen.add([]byte(name)) {
			return fmt.Errorf("the name %.80q occurs twice in an object", name)
		}
		if err := member(name); err != nil {
			return err
		}
	}
	_, err := d.decoder.Token()
	return err
}

// Array reads the next value, an array or null, and calls element with the index of
// each element; element must read it.
func (d *Decoder) Array(element func(i int) error) error {
	token, err := d.decoder.Token()
	switch {
	case err != nil:
		return err
	case token == nil:
		return nil
	case token != json.Delim('['):
		return errors.New("not an array")
	}
	for i := 0; d.decoder.More(); i++ {
		if err := element(i); err != nil {
			return err
		}
	}
	_, err = d.decoder.Token()
	return err
}

// Value reads the next value, checks it as Check does, and decodes it into v, a
// pointer.
func (d *Decoder) Value(v any) error {
	if err := d.decoder.Decode(&d.piece); err != nil {
		return err
	}
	if err := Check(d.piece, d.limits); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(d.piece))
	if d.known {
		decoder.DisallowUnknownFields()
	}
	return short(decoder.Decode(v))
}

// short cuts the text of an error, which may quote the input.
func short(err error) error {
	const most = 400
	if err != nil && len(err.Error()) > most {
		return fmt.Errorf("%.*s…", most, err.Error())
	}
	return err
}

// Skip reads the value of an unknown member.
func (d *Decoder) Skip(name string) error {
	if d.known {
		return fmt.Errorf("unknown field %.80q", name)
	}
	return d.decoder.Decode(&d.piece)
}

// End returns an error if anything but white space is left.
func (d *Decoder) End() error {
	if _, err := d.decoder.Token(); err != io.EOF {
		if err == nil {
			err = errors.New("more text behind the JSON value")
		}
		return err
	}
	return nil
}

func (d *Decoder) expect(delim json.Delim, what string) error {
	token, err := d.decoder.Token()
	if err == nil && token != delim {
		err = fmt.Errorf("not %s", what)
	}
	return err
}
