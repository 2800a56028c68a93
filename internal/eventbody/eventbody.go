// Package eventbody writes and reads events as tables keep them, in CBOR (RFC 8949): a
// payload takes its own bytes and few others, where JSON in base64 takes a third more.
package eventbody

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// body is an event without its ID, which has a column of its own. The numbers of the
// fields are part of what is stored: they never change their meaning.
type body struct {
	Type        string            `cbor:"1,keyasint,omitempty"`
	Positions   []position        `cbor:"2,keyasint"`
	Payload     []byte            `cbor:"3,keyasint,omitempty"`
	Headers     map[string]string `cbor:"4,keyasint,omitempty"`
	Time        *moment           `cbor:"5,keyasint,omitempty"`
	Correlation string            `cbor:"6,keyasint,omitempty"`
	Causation   string            `cbor:"7,keyasint,omitempty"`
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
	b := body{
		Type: e.Type, Payload: e.Payload, Headers: e.Headers, Correlation: e.CorrelationID, Causation: e.CausationID,
		Positions: make([]position, len(e.Positions)),
	}
	for i, p := range e.Positions {
		b.Positions[i] = position{Stream: p.Stream.String(), Epoch: p.Epoch, Number: p.Number, End: p.End}
	}
	if !e.Time.IsZero() {
		_, offset := e.Time.Zone()
		b.Time = &moment{Seconds: e.Time.Unix(), Nanoseconds: int64(e.Time.Nanosecond()), Offset: int64(offset)}
	}
	return encoder.Marshal(&b)
}

// Decode returns the event with an ID and a body, and an error if it is not a valid
// event. A body that was stored as JSON can be read too: the tables of an outbox had
// those at first.
func Decode(id string, stored []byte) (*ordering.Event, error) {
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
	*e = ordering.Event{
		ID: id, Type: b.Type, Payload: b.Payload, Headers: b.Headers, CorrelationID: b.Correlation, CausationID: b.Causation,
		Positions: make([]ordering.Position, len(b.Positions)),
	}
	for i, p := range b.Positions {
		stream, err := lockkeys.Parse(p.Stream)
		if err != nil {
			return nil, fmt.Errorf("stream of position %d: %w", i+1, err)
		}
		e.Positions[i] = ordering.Position{Stream: stream, Epoch: p.Epoch, Number: p.Number, End: p.End}
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
