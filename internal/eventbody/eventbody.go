// Package eventbody writes and reads events as tables keep them, in CBOR (RFC 8949): a
// payload takes its own bytes and few others, where JSON in base64 takes a third more.
// Texts that begin as another one that is known do not have that beginning once more:
// streams and causes often begin as the ID does, and the correlation ID is often what the
// first stream is about.
package eventbody

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// body is an event without its ID, which has a column of its own. The numbers of the
// fields are part of what is stored: they never change their meaning.
type body struct {
	Type        string            `cbor:"1,keyasint,omitempty"`
	Payload     []byte            `cbor:"3,keyasint,omitempty"`
	Headers     map[string]string `cbor:"4,keyasint,omitempty"`
	Time        *moment           `cbor:"5,keyasint,omitempty"`
	Positions   []position        `cbor:"8,keyasint,omitempty"`  // their streams are short beside the ID
	Correlation string            `cbor:"9,keyasint,omitempty"`  // short beside the last segment of the first stream
	Causation   string            `cbor:"10,keyasint,omitempty"` // short beside the ID

	// A body from before texts were short has these instead.
	FullPositions   []position `cbor:"2,keyasint,omitempty"`
	FullCorrelation string     `cbor:"6,keyasint,omitempty"`
	FullCausation   string     `cbor:"7,keyasint,omitempty"`
}

type position struct {
	_      struct{} `cbor:",toarray"`
	Stream string
	Epoch  uint16
	Number uint64
	End    bool
}

// moment is a time with the offset of its zone in seconds.
type moment struct {
	_                            struct{} `cbor:",toarray"`
	Seconds, Nanoseconds, Offset int64
}

var (
	encoder = must(cbor.CoreDetEncOptions().EncMode())
	decoder = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxMapPairs:       math.MaxInt32, // an event may have any number of headers, and must be read again
		// Texts are checked by the event's Validate.
	}.DecMode())
)

func must[M any](mode M, err error) M {
	if err != nil {
		panic(err)
	}
	return mode
}

// Encode returns the body of a valid event.
func Encode(e *ordering.Event) ([]byte, error) {
	b := body{Type: e.Type, Payload: e.Payload, Headers: e.Headers, Positions: make([]position, len(e.Positions))}
	about := ""
	for i, p := range e.Positions {
		stream := p.Stream.String()
		if i == 0 {
			about = last(stream)
		}
		b.Positions[i] = position{Stream: short(e.ID, stream), Epoch: p.Epoch, Number: p.Number, End: p.End}
	}
	if e.CorrelationID != "" {
		b.Correlation = short(about, e.CorrelationID)
	}
	if e.CausationID != "" {
		b.Causation = short(e.ID, e.CausationID)
	}
	if !e.Time.IsZero() {
		_, offset := e.Time.Zone()
		b.Time = &moment{Seconds: e.Time.Unix(), Nanoseconds: int64(e.Time.Nanosecond()), Offset: int64(offset)}
	}
	return encoder.Marshal(&b)
}

// Decode returns the event with an ID and a body, and an error if it is not a valid event.
// kind is its type if the body has none. A body that was stored as JSON can be read too:
// the tables of an outbox had those at first.
func Decode(id, kind string, stored []byte) (*ordering.Event, error) {
	e := new(ordering.Event)
	if len(stored) > 0 && stored[0] == '{' { // no body in CBOR begins with this byte
		if err := json.Unmarshal(stored, e); err != nil {
			return nil, err
		}
		return e, e.Validate()
	}
	var b body
	if err := decoder.Unmarshal(stored, &b); err != nil {
		return nil, err
	}
	long := long
	if len(b.FullPositions) > 0 {
		b.Positions, b.Correlation, b.Causation = b.FullPositions, b.FullCorrelation, b.FullCausation
		long = func(_, stored string) (string, error) { return stored, nil }
	}
	if b.Type != "" {
		kind = b.Type
	}
	*e = ordering.Event{ID: id, Type: kind, Payload: b.Payload, Headers: b.Headers, Positions: make([]ordering.Position, len(b.Positions))}
	about := ""
	for i, p := range b.Positions {
		text, err := long(id, p.Stream)
		if err != nil {
			return nil, fmt.Errorf("stream of position %d: %w", i+1, err)
		}
		if i == 0 {
			about = last(text)
		}
		stream, err := lockkeys.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("stream of position %d: %w", i+1, err)
		}
		e.Positions[i] = ordering.Position{Stream: stream, Epoch: p.Epoch, Number: p.Number, End: p.End}
	}
	var err error
	if b.Correlation != "" {
		if e.CorrelationID, err = long(about, b.Correlation); err != nil {
			return nil, fmt.Errorf("correlation ID: %w", err)
		}
	}
	if b.Causation != "" {
		if e.CausationID, err = long(id, b.Causation); err != nil {
			return nil, fmt.Errorf("causation ID: %w", err)
		}
	}
	if t := b.Time; t != nil {
		e.Time = time.Unix(t.Seconds, t.Nanoseconds).In(zone(t.Offset))
	}
	return e, e.Validate()
}

func zone(offset int64) *time.Location {
	if offset == 0 {
		return time.UTC
	}
	return time.FixedZone("", int(offset))
}

// last returns the last segment of a stream.
func last(stream string) string { return stream[strings.LastIndexByte(stream, '/')+1:] }

// short returns a text as it is stored beside another one that is known when it is read: how
// many bytes of their beginnings are the same, as a character, and the rest of the text.
func short(known, text string) string {
	n := 0
	for n < min(len(known), len(text)) && known[n] == text[n] {
		n++
	}
	for n < len(text) && !utf8.RuneStart(text[n]) { // the rest is text as well
		n--
	}
	return string(rune(n)) + text[n:]
}

// long returns the text that short has shortened.
func long(known, stored string) (string, error) {
	n, size := utf8.DecodeRuneInString(stored)
	if size == 0 || int(n) > len(known) {
		return "", fmt.Errorf("%.80q has not been shortened beside %.80q", stored, known)
	}
	return known[:n] + stored[size:], nil
}
