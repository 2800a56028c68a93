package httpreplay

import (
	"errors"
	"fmt"
	"io"

	"github.com/interlock-go/interlock/internal/strictjson"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// piece limits an event or a range of an answer. The deepest is an event, with
// its positions, each with a stream and a number.
var piece = strictjson.Limits{Depth: 8, Members: ordering.MaxPositions, Texts: "headers"}

// decodeAnswer decodes the result of encodeAnswer, piece by piece. It refuses more
// than maxEvents events or ranges, more than maxBytes of text, and events whose
// sizes add up to much more. So no answer takes more than a few times maxBytes of
// memory. Events are not validated, but none is nil.
func decodeAnswer(r io.Reader, maxEvents int, maxBytes int64) (replay.Answer, error) {
	text := &io.LimitedReader{R: r, N: maxBytes + 1}
	a, err := answer{maxEvents: maxEvents, maxBytes: maxBytes}.decode(text)
	switch {
	case err != nil && text.N <= 0:
		return replay.Answer{}, fmt.Errorf("%w: the answer has more than MaxBytes, %d: raise it, or lower that of the server", ErrTooLarge, maxBytes)
	case err == nil:
		return a, nil
	case errors.Is(err, ErrVersion) || errors.Is(err, ErrTooLarge):
		return replay.Answer{}, err
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return replay.Answer{}, fmt.Errorf("%w: cut off after %d bytes: %w", ErrResponse, maxBytes+1-text.N, err)
	}
	return replay.Answer{}, fmt.Errorf("%w: %w", ErrResponse, err)
}

// answer is an answer being decoded.
type answer struct {
	maxEvents int
	maxBytes  int64
	version   int
	size      int64 // of the events
	replay.Answer
}

func (a answer) decode(text io.Reader) (replay.Answer, error) {
	d := strictjson.NewDecoder(text, piece, false)
	err := d.Object(func(name string) (err error) {
		switch name {
		case "version":
			if err = d.Value(&a.version); err == nil {
				err = checkVersion(a.version)
			}
		case "events":
			err = d.Array(a.events(d, &a.Events))
		case "before":
			err = d.Array(a.events(d, &a.Before))
		case "no_such":
			err = d.Array(a.ranges(d))
		default:
			err = d.Skip(name)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		return nil
	})
	if err == nil {
		err = d.End()
	}
	if err == nil {
		err = checkVersion(a.version)
	}
	return a.Answer, err
}

// events reads events into a list of the answer. The bounds are for all its lists.
func (a *answer) events(d *strictjson.Decoder, list *[]*ordering.Event) func(i int) error {
	most := 2*a.maxBytes + 512*int64(a.maxEvents)
	return func(i int) error {
		if len(a.Events)+len(a.Before) == a.maxEvents {
			return fmt.Errorf("%w: more than %d events", ErrTooLarge, a.maxEvents)
		}
		var e *ordering.Event
		if err := d.Value(&e); err != nil {
			return fmt.Errorf("event %d: %w", i+1, err)
		}
		if e == nil {
			return fmt.Errorf("event %d is null", i+1)
		}
		if a.size += e.Size(); a.size > most {
			return fmt.Errorf("%w: %d events take more than %d bytes, with a MaxBytes of %d", ErrTooLarge, i+1, most, a.maxBytes)
		}
		*list = append(*list, e)
		return nil
	}
}

func (a *answer) ranges(d *strictjson.Decoder) func(i int) error {
	return func(i int) error {
		if i == a.maxEvents {
			return fmt.Errorf("%w: more than %d ranges", ErrTooLarge, a.maxEvents)
		}
		var r ordering.Range
		if err := d.Value(&r); err != nil {
			return fmt.Errorf("range %d: %w", i+1, err)
		}
		a.NoSuch = append(a.NoSuch, r)
		return nil
	}
}

func checkVersion(version int) error {
	switch version {
	case Version:
		return nil
	case 0:
		return fmt.Errorf("%w: no version", ErrResponse)
	}
	return fmt.Errorf("%w: the response is of %d, the client of %d", ErrVersion, version, Version)
}
