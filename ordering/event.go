package ordering

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// Bounds of an event.
const (
	// MaxPositions is the largest number of positions of an event.
	MaxPositions = 4096
	// MaxNumber is the largest number of an event on a stream, in each epoch: a
	// hundred trillion, 10¹⁴. With all epochs that fits into a signed 64-bit
	// integer, since databases have no unsigned ones.
	MaxNumber = core.EpochSize
	// MaxID is the longest event ID, in bytes.
	MaxID = 1024
	// MaxStream is the length of the longest key of a stream, in bytes: its
	// segments, and one byte between each two. A database can index keys up to
	// that.
	MaxStream = 512
)

// Event is one message of a producer that numbers its messages. An event must
// not be changed once it was offered. Its texts are UTF-8 without NUL bytes, so
// that every store can keep them; the payload may be any bytes.
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
	// Headers are further data that came with the payload.
	Headers map[string]string `json:"headers,omitempty"`
	// Time is when the event happened, by the producer's clock.
	Time time.Time `json:"time,omitzero"`
	// CorrelationID is the same for all events of one business transaction.
	CorrelationID string `json:"correlation_id,omitempty"`
	// CausationID is the ID of the event or command that led to this one.
	CausationID string `json:"causation_id,omitempty"`

	// Delivery is the source's word on whether it has delivered the event before, for
	// [Config.MaxCrashes]. It is no part of the event: no store keeps it, and a copy
	// may have another one.
	Delivery Delivery `json:"-"`
}

// Delivery says whether a source has delivered an event before.
type Delivery uint8

// Deliveries.
const (
	DeliveryUnknown Delivery = iota // the source does not tell
	FirstDelivery                   // it has not
	DeliveredAgain                  // it has, and knows of no outcome: the event may have run
)

// Position is the position of an event in a stream.
type Position struct {
	// Stream is the key whose events the producer numbers: an order, an
	// account, a client. The root, which is the zero Key too, is a stream like any
	// other, written "/": with default keys its events wait for everything, and
	// everything for them.
	Stream lockkeys.Key `json:"stream"`
	// Epoch is what a producer raises when it has lost its numbers, since its
	// database was restored from a backup for example, so that it cannot go on
	// where it was: in each epoch numbers start at 1 again, and all of it comes
	// after all of the epochs before. Epochs may be left out. Default: 0.
	Epoch uint16 `json:"epoch,omitempty"`
	// Number counts the events of the stream, in the epoch: 1, 2, 3 and so on.
	Number uint64 `json:"number"`
	// End says that the event is the last of the stream. A later epoch opens it
	// again.
	End bool `json:"end,omitempty"`
}

// String returns the position in the form of [FormatSequenceID].
func (p Position) String() string { return FormatSequenceID([]Position{p}) }

// Name returns the event's ID, or the default if it has none.
func (e *Event) Name() string {
	if e.ID != "" {
		return e.ID
	}
	return shortName(FormatSequenceID(e.Positions))
}

// shortName returns name, or a hash of it if it is longer than MaxID.
func shortName(name string) string {
	if len(name) <= MaxID {
		return name
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(name)))
}

// Size returns the size of the event, for bounds in bytes: about the memory it
// takes.
func (e *Event) Size() int64 {
	n := 256 + len(e.ID) + len(e.Type) + cap(e.Payload) + len(e.CorrelationID) + len(e.CausationID)
	if len(e.Headers) > 0 { // most have none, and a loop over none takes time too
		for name, value := range e.Headers {
			n += 48 + len(name) + len(value)
		}
	}
	n += 48 * cap(e.Positions)
	for _, p := range e.Positions {
		n += p.Stream.Size()
	}
	return int64(n)
}

// waiting is what an event of a size counts for while it waits for earlier ones: with each
// of its positions it keeps a stream in memory, with its key, its heap and its
// timer.
func (e *Event) waiting(size int64) int64 { return size + streamBytes*int64(len(e.Positions)) }

// streamBytes is about the memory of a stream on which one event waits.
const streamBytes = 1536

// positionsText returns the event's first few positions as text.
func (e *Event) positionsText() string {
	return FormatSequenceID(e.Positions[:min(4, len(e.Positions))])
}

// On returns the event's position on stream; ok is false if it has none there.
func (e *Event) On(stream lockkeys.Key) (p Position, ok bool) {
	for _, p := range e.Positions {
		if p.Stream == stream {
			return p, true
		}
	}
	return Position{}, false
}

// Reasons why an event is refused; an [*EventError] wraps one of them.
var (
	// ErrNoPosition: the event has no position, so its place in the order is
	// unknown.
	ErrNoPosition = errors.New("no position: give the event a number on at least one stream")
	// ErrTooManyPositions: more than MaxPositions.
	ErrTooManyPositions = fmt.Errorf("more than %d positions: number the event on a wider stream", MaxPositions)
	// ErrNumber: a number is 0 or larger than MaxNumber.
	ErrNumber = fmt.Errorf("number is not from 1 to %d", int64(MaxNumber))
	// ErrRepeatedStream: two positions are on the same stream.
	ErrRepeatedStream = errors.New("two positions on one stream: an event has one number on each of its streams")
	// ErrLongID: the ID is longer than MaxID.
	ErrLongID = fmt.Errorf("event ID longer than %d bytes: use a hash of it", MaxID)
	// ErrLongStream: the key of a stream is longer than MaxStream.
	ErrLongStream = fmt.Errorf("stream key longer than %d bytes: shorten it", MaxStream)
	// ErrText: the ID, the type, a header, or the ID of a correlation or a
	// cause is not UTF-8, or has a NUL byte.
	ErrText = errors.New("text that is not UTF-8 or has a NUL byte: put binary data into the payload")
	// ErrTime: the time cannot be written in the form of RFC 3339.
	ErrTime = errors.New("time is not in the years 0 to 9999, or its zone is a day or more from UTC")
)

// EventError is the error for an event that is not valid.
type EventError struct {
	ID       string   // of the event, or the default if there is one
	Position Position // the invalid one, if the problem is one
	Reason   error    // one of the errors above
}

// Error names the event and the stream, each cut after 80 characters.
func (e *EventError) Error() string {
	if e.Position == (Position{}) {
		return fmt.Sprintf("ordering: event %.80q: %v", e.ID, e.Reason)
	}
	return fmt.Sprintf("ordering: event %.80q: stream %.80s, number %s: %v", e.ID, e.Position.Stream, e.Position.number(), e.Reason)
}

// Unwrap returns the reason.
func (e *EventError) Unwrap() error { return e.Reason }

// IsCommand reports whether the event is a command: it has an ID and no numbers.
// A command is applied once by its ID, see [Config.CommandRetention], and is
// ordered by its acceptance, on its lock keys.
func (e *Event) IsCommand() bool { return len(e.Positions) == 0 && e.ID != "" }

// Validate returns an [*EventError] if the event is not valid as a numbered
// event. It does not allocate for a valid event with few positions.
func (e *Event) Validate() error {
	switch {
	case len(e.Positions) == 0:
		return &EventError{ID: e.ID, Reason: ErrNoPosition}
	case len(e.Positions) > MaxPositions:
		return &EventError{e.ID, e.Positions[MaxPositions], ErrTooManyPositions}
	}
	for _, p := range e.Positions {
		if err := p.check(); err != nil {
			return &EventError{e.Name(), p, err}
		}
	}
	if p, ok := repeated(e.Positions); ok {
		return &EventError{e.Name(), p, ErrRepeatedStream}
	}
	return e.validateTexts()
}

// validateTexts checks everything except the numbers.
func (e *Event) validateTexts() error {
	switch {
	case len(e.ID) > MaxID:
		return &EventError{ID: e.ID, Reason: ErrLongID}
	case !e.isText():
		return &EventError{ID: e.Name(), Reason: ErrText}
	case !hasText(e.Time):
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
	if len(e.Headers) > 0 { // see Size
		for name, value := range e.Headers {
			if !isText(name) || !isText(value) {
				return false
			}
		}
	}
	return isText(e.ID) && isText(e.Type) && isText(e.CorrelationID) && isText(e.CausationID)
}

func isText(s string) bool { return s == "" || utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// hasText reports whether a time can be written in the form of RFC 3339.
func hasText(t time.Time) bool {
	if t.IsZero() {
		return true
	}
	const day = 24 * 60 * 60
	year := t.Year()
	_, offset := t.Zone()
	return 0 <= year && year <= 9999 && -day < offset && offset < day
}

// repeated returns a position on the same stream as an earlier one.
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
