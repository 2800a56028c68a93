package rabbitmq

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Headers of messages that are events, beside [ordering.SequenceIDHeader] with
// the positions. An event that has one of these names, or that one, among its
// own headers is refused by a [Publisher].
const (
	// CausationHeader has [ordering.Event.CausationID].
	CausationHeader = "x-event-causation-id"
	// EventTimeHeader has [ordering.Event.Time] to the nanosecond, as RFC 3339
	// has it; the timestamp property has whole seconds only.
	EventTimeHeader = "x-event-time"
	// EventIDHeader, EventTypeHeader and CorrelationHeader have what is longer
	// than the 255 bytes for which the properties have room. The message ID is
	// then a hash of the event's.
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
		m.MessageId = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(id)))
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

// shortOrHeader returns value for a property, if it has room there; else it
// makes it a header.
func shortOrHeader(headers amqp.Table, name, value string) string {
	if len(value) <= maxShort {
		return value
	}
	headers[name] = value
	return ""
}

// timeText writes a time so that it can be read again exactly: RFC 3339 has no
// zones with seconds.
func timeText(t time.Time) string {
	if _, offset := t.Zone(); offset%60 != 0 {
		t = t.UTC()
	}
	return t.Format(time.RFC3339Nano)
}

// isReserved tells whether a header of this name has a part of the event.
func isReserved(name string) bool {
	switch name {
	case ordering.SequenceIDHeader, CausationHeader, EventTimeHeader, EventIDHeader, EventTypeHeader, CorrelationHeader:
		return true
	}
	return false
}

// EventOf returns the event that a message is. It need not have been made by
// [Message]: without an ID the event has its default; without the exact time it
// has that of the timestamp. Of other headers those that are strings are the
// event's. The payload is the body itself, not a copy.
//
// The sequence ID may be a bare number, as a string or an integer. Then it is
// the number on the stream that the routing key names, in the text form of keys:
// order/42 is a stream order, 42, and order.42 one of a single segment. So each
// stream needs a routing key of its own; where all events of a kind have the same
// one, they would count as one stream, and what has a number that came before, as
// a duplicate. A message by the default exchange, where the routing key is the
// name of its queue, is refused with a bare number.
//
// The event is valid; see [ordering.Event.Validate]. The error is a
// [*MessageError].
func EventOf(m amqp.Delivery) (*ordering.Event, error) {
	e := &ordering.Event{ID: m.MessageId, Type: m.Type, CorrelationID: m.CorrelationId, Time: m.Timestamp}
	if len(m.Body) > 0 {
		e.Payload = m.Body
	}
	bad := func(part string, err error) error { return &MessageError{m.MessageId, part, err} }
	badHeader := func(name string, err error) error { return bad(fmt.Sprintf("header %q", name), err) }

	for name, value := range m.Headers {
		text, isString := value.(string)
		switch name {
		case ordering.SequenceIDHeader:
			continue
		case CausationHeader:
			e.CausationID = text
		case EventIDHeader:
			e.ID = text
		case EventTypeHeader:
			e.Type = text
		case CorrelationHeader:
			e.CorrelationID = text
		case EventTimeHeader:
			if isString {
				var err error
				if e.Time, err = time.Parse(time.RFC3339Nano, text); err != nil {
					return nil, badHeader(name, err)
				}
			}
		default:
			if isString {
				if e.Headers == nil {
					e.Headers = make(map[string]string, len(m.Headers))
				}
				e.Headers[name] = text
			}
			continue
		}
		if !isString {
			return nil, badHeader(name, fmt.Errorf("%w: it is a %T", errNoString, value))
		}
	}
	sequence, err := sequenceText(m.Headers)
	if err != nil {
		return nil, badHeader(ordering.SequenceIDHeader, err)
	}
	if e.Positions, err = ordering.ParseSequenceID(sequence, streamOf(m)); err != nil {
		return nil, badHeader(ordering.SequenceIDHeader, err)
	}
	if err := e.Validate(); err != nil {
		return nil, bad("event", err)
	}
	return e, nil
}

var (
	errNoString   = errors.New("not a string")
	errNoSequence = errors.New("it is missing: it has the event's number on each of its streams")
)

// sequenceText returns the header with the positions, which in the simplest
// case is one number.
func sequenceText(headers amqp.Table) (string, error) {
	switch v := headers[ordering.SequenceIDHeader].(type) {
	case nil:
		return "", errNoSequence
	case string:
		return v, nil
	case int16:
		return strconv.FormatInt(int64(v), 10), nil
	case int32:
		return strconv.FormatInt(int64(v), 10), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case uint16:
		return strconv.FormatUint(uint64(v), 10), nil
	case uint32:
		return strconv.FormatUint(uint64(v), 10), nil
	default:
		return "", fmt.Errorf("%w, and no integer: it is a %T", errNoString, v)
	}
}

// streamOf returns the stream that a message's routing key names, or the root,
// which is none.
func streamOf(m amqp.Delivery) lockkeys.Key {
	if m.Exchange == "" { // the routing key is the queue's name
		return lockkeys.Root()
	}
	stream, err := lockkeys.Parse(m.RoutingKey)
	if err != nil {
		return lockkeys.Root()
	}
	return stream
}
