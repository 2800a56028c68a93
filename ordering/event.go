package ordering

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/interlock-go/interlock/lockkeys"
)

// Bounds of an event.
const (
	// MaxPositions is the most positions that an event may have.
	MaxPositions = 4096
	// MaxNumber is the largest number of an event on a stream: what a signed
	// 64-bit integer holds, since databases have no other.
	MaxNumber = math.MaxInt64
	// MaxID is the longest event ID, in bytes.
	MaxID = 1024
	// MaxStream is the longest key of a stream: the bytes of its segments and
	// one between any two. A database can still index it then.
	MaxStream = 512
)

// Event is one message of a producer who numbers what it sends. An event is
// not to be changed once it was offered; its payload and headers belong to
// whoever handles it. Its text is UTF-8 without NUL bytes, so that every store
// can keep it; the payload is any bytes.
type Event struct {
	// ID names the event; a redelivery has the same. Default: the positions
	// in the form of [FormatSequenceID], or if that is longer than MaxID,
	// "sha256:" and its hash in hexadecimal digits.
	ID string `json:"id,omitempty"`
	// Type says what the event is, for the handler.
	Type string `json:"type,omitempty"`
	// Positions are the event's numbers, one for each stream that it is part
	// of. A transfer may be number 5 of one account and number 9 of another.
	Positions []Position `json:"positions"`
	// Payload is the event's body, for the handler.
	Payload []byte `json:"payload,omitempty"`
	// Headers are whatever came with the body.
	Headers map[string]string `json:"headers,omitempty"`
	// Time is when the event happened, by the producer's clock.
	Time time.Time `json:"time,omitzero"`
	// CorrelationID is the same for all events of one piece of business.
	CorrelationID string `json:"correlation_id,omitempty"`
	// CausationID is the ID of the event or command that led to this one.
	CausationID string `json:"causation_id,omitempty"`
}

// Position is the place of an event in a stream.
type Position struct {
	// Stream is the key whose events the producer numbers: an order, an
	// account, a client.
	Stream lockkeys.Key `json:"stream"`
	// Number counts the events of the stream: 1, 2, 3 and so on.
	Number uint64 `json:"number"`
	// End says that the event is the last of the stream.
	End bool `json:"end,omitempty"`
}

// String returns the position in the form of [FormatSequenceID].
func (p Position) String() string { return FormatSequenceID([]Position{p}) }

// Name returns the event's ID, or its default.
func (e *Event) Name() string {
	if e.ID != "" {
		return e.ID
	}
	return shortName(FormatSequenceID(e.Positions))
}

// shortName returns a name that is no longer than MaxID.
func shortName(name string) string {
	if len(name) <= MaxID {
		return name
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(name)))
}

// Size is what the event counts for where a bound is in bytes: about what it
// takes in memory.
func (e *Event) Size() int64 {
	n := 256 + len(e.ID) + len(e.Type) + cap(e.Payload) + len(e.CorrelationID) + len(e.CausationID)
	for name, value := range e.Headers {
		n += 48 + len(name) + len(value)
	}
	n += 48 * cap(e.Positions)
	for _, p := range e.Positions {
		n += p.Stream.Size()
	}
	return int64(n)
}

// waiting is what an event counts for while it waits for earlier ones: with each
// of its positions it keeps a stream in memory, with its key, its heap and its
// timer.
func (e *Event) waiting() int64 { return e.Size() + streamBytes*int64(len(e.Positions)) }

// streamBytes is about what a stream takes in memory on which one event waits.
const streamBytes = 1536

// positionsText is the event's positions, those of the first few streams.
func (e *Event) positionsText() string {
	return FormatSequenceID(e.Positions[:min(4, len(e.Positions))])
}

// On returns the event's number on stream; ok is false if it has none there.
func (e *Event) On(stream lockkeys.Key) (number uint64, ok bool) {
	for _, p := range e.Positions {
		if p.Stream == stream {
			return p.Number, true
		}
	}
	return 0, false
}

// Reasons why an event is refused; an [*EventError] wraps one of them.
var (
	// ErrNoPosition: the event has no position, so nothing says when it is
	// its turn.
	ErrNoPosition = errors.New("no position: give the event a number on at least one stream")
	// ErrTooManyPositions: more than MaxPositions.
	ErrTooManyPositions = fmt.Errorf("more than %d positions: number the event on a wider stream", MaxPositions)
	// ErrNumber: a number is 0 or larger than MaxNumber.
	ErrNumber = fmt.Errorf("number is not from 1 to %d", int64(MaxNumber))
	// ErrRepeatedStream: two positions are on the same stream.
	ErrRepeatedStream = errors.New("two positions on one stream: an event has one number on each of its streams")
	// ErrLongID: the ID is longer than MaxID.
	ErrLongID = fmt.Errorf("event ID longer than %d bytes", MaxID)
	// ErrLongStream: the key of a stream is longer than MaxStream.
	ErrLongStream = fmt.Errorf("stream key longer than %d bytes", MaxStream)
	// ErrText: the ID, the type, a header, or the ID of a correlation or a
	// cause is not UTF-8, or has a NUL byte.
	ErrText = errors.New("text that is not UTF-8 or has a NUL byte: put binary data into the payload")
	// ErrTime: the time cannot be written in the form of RFC 3339.
	ErrTime = errors.New("time is not in the years 0 to 9999, or its zone is a day or more from UTC")
)

// EventError says which event was refused, and why.
type EventError struct {
	ID       string   // of the event, or its default if that can be said
	Position Position // the one at fault, if one is
	Reason   error    // one of the errors above
}

// Error names the event and the stream, each cut after 80 characters.
func (e *EventError) Error() string {
	if e.Position == (Position{}) {
		return fmt.Sprintf("ordering: event %.80q: %v", e.ID, e.Reason)
	}
	return fmt.Sprintf("ordering: event %.80q: stream %.80s, number %d: %v", e.ID, e.Position.Stream, e.Position.Number, e.Reason)
}

// Unwrap gives the reason to errors.Is.
func (e *EventError) Unwrap() error { return e.Reason }

// Validate tells whether the event can be put in order. The error is an
// [*EventError]. It does not allocate for a good event of a few positions.
func (e *Event) Validate() error {
	switch {
	case len(e.Positions) == 0:
		return &EventError{ID: e.ID, Reason: ErrNoPosition}
	case len(e.Positions) > MaxPositions:
		return &EventError{e.ID, e.Positions[MaxPositions], ErrTooManyPositions}
	case len(e.ID) > MaxID:
		return &EventError{ID: e.ID, Reason: ErrLongID}
	}
	for _, p := range e.Positions {
		if err := p.check(); err != nil {
			return &EventError{e.Name(), p, err}
		}
	}
	if p, ok := repeated(e.Positions); ok {
		return &EventError{e.Name(), p, ErrRepeatedStream}
	}
	if !e.isText() {
		return &EventError{ID: e.Name(), Reason: ErrText}
	}
	if !hasText(e.Time) {
		return &EventError{ID: e.Name(), Reason: ErrTime}
	}
	return nil
}

func (p Position) check() error {
	if p.Number == 0 || p.Number > MaxNumber {
		return ErrNumber
	}
	if p.Stream.Size() > MaxStream {
		return ErrLongStream
	}
	return nil
}

func (e *Event) isText() bool {
	for name, value := range e.Headers {
		if !isText(name) || !isText(value) {
			return false
		}
	}
	return isText(e.ID) && isText(e.Type) && isText(e.CorrelationID) && isText(e.CausationID)
}

func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// hasText tells whether a time can be written as RFC 3339 has it.
func hasText(t time.Time) bool {
	const day = 24 * 60 * 60
	year := t.Year()
	_, offset := t.Zone()
	return 0 <= year && year <= 9999 && -day < offset && offset < day
}

// repeated returns a position whose stream an earlier one has too.
func repeated(positions []Position) (Position, bool) {
	const few = 8 // so many are compared faster than looked up
	if len(positions) <= few {
		for i, p := range positions {
			for _, q := range positions[:i] {
				if p.Stream == q.Stream {
					return p, true
				}
			}
		}
		return Position{}, false
	}
	seen := make(map[lockkeys.Key]struct{}, len(positions))
	for _, p := range positions {
		if _, ok := seen[p.Stream]; ok {
			return p, true
		}
		seen[p.Stream] = struct{}{}
	}
	return Position{}, false
}
