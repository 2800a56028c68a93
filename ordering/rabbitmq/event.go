package rabbitmq

import (
	"crypto/sha256"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/ordering"
)

// Headers of messages that are events, in addition to
// [ordering.SequenceIDHeader] with the positions. A [Publisher] refuses an event
// with a header of its own of one of these names.
const (
	// CausationHeader has [ordering.Event.CausationID].
	CausationHeader = "x-event-causation-id"
	// EventTimeHeader has [ordering.Event.Time] to the nanosecond, in the format
	// of RFC 3339; the timestamp property has whole seconds only.
	EventTimeHeader = "x-event-time"
	// EventIDHeader, EventTypeHeader and CorrelationHeader have values that are
	// longer than the 255 bytes of a property. The message ID is then a hash of
	// the event's.
	EventIDHeader     = "x-event-id"
	EventTypeHeader   = "x-event-type"
	CorrelationHeader = "x-event-correlation-id"
)

// maxShort is the longest short string of the protocol, in bytes.
const maxShort = 255

// Message returns an event as a message, which is persistent. [EventOf] reads
// it. The message ID is the event's name; type and correlation ID are in the
// properties of that name; positions, causation and time are headers beside
// the event's own ones. The body is the payload itself, not a copy.
func Message(e *ordering.Event) amqp.Publishing {
	m := amqp.Publishing{
		Headers:      make(amqp.Table, len(e.Headers)+3),
		DeliveryMode: amqp.Persistent,
		Body:         e.Payload,
	}
	for name, value := range e.Headers {
		m.Headers[name] = value
	}
	sequence := ordering.FormatSequenceID(e.Positions)
	m.Headers[ordering.SequenceIDHeader] = sequence
	id := e.ID
	if id == "" {
		if id = sequence; len(id) > maxShort {
			id = e.Name()
		}
	}
	if m.MessageId = id; len(id) > maxShort {
		m.MessageId = hashed(id)
		m.Headers[EventIDHeader] = id
	}
	m.Type = shortOrHeader(m.Headers, EventTypeHeader, e.Type)
	m.CorrelationId = shortOrHeader(m.Headers, CorrelationHeader, e.CorrelationID)
	if e.CausationID != "" {
		m.Headers[CausationHeader] = e.CausationID
	}
	if !e.Time.IsZero() {
		m.Headers[EventTimeHeader] = timeText(e.Time)
		if e.Time.Unix() > 0 { // others have no room there
			m.Timestamp = e.Time
		}
	}
	return m
}

// hashed returns a hash that replaces a text which cannot be a message ID.
func hashed(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

// shortOrHeader returns value if it fits in a property; otherwise it sets a
// header and returns "".
func shortOrHeader(headers amqp.Table, name, value string) string {
	if len(value) <= maxShort {
		return value
	}
	headers[name] = value
	return ""
}

// timeText formats a time without loss. A zone with seconds is replaced by UTC,
// since RFC 3339 has none.
func timeText(t time.Time) string {
	if _, offset := t.Zone(); offset%60 != 0 {
		t = t.UTC()
	}
	return t.Format(time.RFC3339Nano)
}

// isReserved reports whether the header of this name has a part of the event.
func isReserved(name string) bool {
	switch name {
	case ordering.SequenceIDHeader, CausationHeader, EventTimeHeader, EventIDHeader, EventTypeHeader, CorrelationHeader:
		return true
	}
	return false
}
