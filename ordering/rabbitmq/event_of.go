package rabbitmq

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// EventOf converts a message to an event. The message need not have been made by
// [Message]: without an ID the event has its default; without the exact time it
// has that of the timestamp.
//
// The sequence ID may be a bare number: digits as text, with an epoch and an end
// if necessary, an integer of any size, or an exact integer as a floating-point
// number. Then it is the number on the stream named by the routing key, in the text
// form of keys: order/42 is the stream with the segments order and 42, and order.42
// one of a single segment. So each stream needs a routing key of its own; events of
// different streams with the same routing key would count as one stream. A bare
// number is refused in a message to the default exchange, where the routing key is
// the queue's name; in a dead letter of a [Consumer], with [QueueHeader]; and in one of the
// broker's if it came to the default exchange before or had another routing key.
//
// A message with an invalid sequence ID or type is refused, and one whose [EventIDHeader]
// is longer than [ordering.MaxID]. Everything else is kept as far as an event can hold it,
// and the rest is left out, which a [Receiver] of [Events] or [Owner] counts and logs:
//
//   - headers that are text, numbers or booleans become the event's, as text.
//     Tables, lists, and text that is not UTF-8 or has a NUL byte are left out;
//   - a time outside of the range of events, such as a timestamp in milliseconds,
//     is left out;
//   - a message ID that is not text is replaced by its hash.
//
// The payload is the body itself, not a copy. Whether the broker has delivered the
// message before is the event's Delivery. The event is valid; see
// [ordering.Event.Validate]. The error is a [*MessageError].
func EventOf(m amqp.Delivery) (*ordering.Event, error) {
	e, _, err := eventOf(m)
	return e, err
}

// eventOf also returns what is left out, for a log: the names of headers, and
// "property NAME" for properties.
func eventOf(m amqp.Delivery) (_ *ordering.Event, left []string, _ error) {
	e := &ordering.Event{ID: m.MessageId, Type: m.Type, CorrelationID: m.CorrelationId, Delivery: ordering.FirstDelivery}
	if m.Redelivered {
		e.Delivery = ordering.DeliveredAgain
	}
	if len(m.Body) > 0 {
		e.Payload = m.Body
	}
	bad := func(part string, err error) (*ordering.Event, []string, error) {
		return nil, left, &MessageError{m.MessageId, part, err}
	}
	if !isText(e.Type) {
		return bad("type", ordering.ErrText)
	}
	if !isText(e.ID) {
		e.ID, left = hashed(e.ID), append(left, "property message-id")
	}
	if !isText(e.CorrelationID) {
		e.CorrelationID, left = "", append(left, "property correlation-id")
	}
	if e.Time = m.Timestamp; !m.Timestamp.IsZero() && (m.Timestamp.Unix() < 0 || m.Timestamp.Year() > lastYear) {
		e.Time, left = time.Time{}, append(left, "property timestamp")
	}
	for name, value := range m.Headers {
		if name == ordering.SequenceIDHeader {
			continue
		}
		if _, isText := value.(string); isBrokers(name) && !isText {
			continue
		}
		if !takeHeader(e, name, value) {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	sequence, err := sequenceText(m.Headers)
	if err == nil {
		e.Positions, err = ordering.ParseSequenceID(sequence, streamOf(m))
	}
	if err != nil {
		return bad(fmt.Sprintf("header %q", ordering.SequenceIDHeader), err)
	}
	if err := e.Validate(); err != nil {
		return bad("event", err)
	}
	return e, left, nil
}

// takeHeader copies a header into the event, and reports whether it can hold it.
func takeHeader(e *ordering.Event, name string, value any) bool {
	text, isString := value.(string)
	var part *string
	switch name {
	case EventIDHeader:
		part = &e.ID
	case EventTypeHeader:
		part = &e.Type
	case CorrelationHeader:
		part = &e.CorrelationID
	case CausationHeader:
		part = &e.CausationID
	case EventTimeHeader:
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return false
		}
		e.Time = at
		return true
	default:
		text, ok := textOf(value)
		if !ok || !isText(name) {
			return false
		}
		if e.Headers == nil {
			e.Headers = map[string]string{}
		}
		e.Headers[name] = text
		return true
	}
	if !isString || !isText(text) {
		return false
	}
	*part = text
	return true
}

// isBrokers reports whether a header is the broker's own count or history of
// deliveries, which changes with each delivery.
func isBrokers(name string) bool {
	return name == deliveryCountHeader || name == "x-acquired-count" || name == "x-death"
}

// deliveryCountHeader counts the returns of a message to its quorum queue.
const deliveryCountHeader = "x-delivery-count"

// lastYear is the last year of an event's time.
const lastYear = 9999

// isText reports whether an event can hold s as text.
func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// textOf formats a header's value as text; it is not ok for tables and lists.
func textOf(value any) (text string, ok bool) {
	if n, ok := integer(value); ok {
		return n, true
	}
	switch v := value.(type) {
	case string:
		text = v
	case []byte:
		text = string(v)
	case bool:
		return strconv.FormatBool(v), true
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case time.Time: // whole seconds, of any year
		return v.UTC().Format(time.RFC3339), true
	case amqp.Decimal:
		return fmt.Sprintf("%de-%d", v.Value, v.Scale), true
	default:
		return "", false
	}
	return text, isText(text)
}

// integer formats a value of one of the protocol's integer types.
func integer(value any) (digits string, ok bool) {
	switch v := value.(type) {
	case int8:
		return strconv.FormatInt(int64(v), 10), true
	case int16:
		return strconv.FormatInt(int64(v), 10), true
	case int32:
		return strconv.FormatInt(int64(v), 10), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case int: // sent as one of these
		return strconv.Itoa(v), true
	case uint8:
		return strconv.FormatUint(uint64(v), 10), true
	case uint16:
		return strconv.FormatUint(uint64(v), 10), true
	case uint32:
		return strconv.FormatUint(uint64(v), 10), true
	}
	return "", false
}

// Integers below these are exact in floating-point types.
const (
	exact32 = 1 << 24
	exact64 = 1 << 53
)

// sequenceText returns the header with the positions, which in the simplest
// case is one number.
func sequenceText(headers amqp.Table) (string, error) {
	value := headers[ordering.SequenceIDHeader]
	if n, ok := integer(value); ok {
		return n, nil
	}
	switch v := value.(type) {
	case nil:
		return "", noSequence(headers)
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	case float32:
		return exactly(float64(v), exact32)
	case float64:
		return exactly(v, exact64)
	}
	return "", fmt.Errorf("it is a %T: send it as a string or an integer", value)
}

func exactly(v, below float64) (string, error) {
	if v != math.Trunc(v) || math.Abs(v) >= below {
		return "", fmt.Errorf("%v is not an integer, or not exact: send it as an integer or a string", v)
	}
	return strconv.FormatInt(int64(v), 10), nil
}

// errNoSequence: the message has no position on any stream.
var errNoSequence = errors.New("it is missing: set it to the event's number on each of its streams")

func noSequence(headers amqp.Table) error {
	for name := range headers {
		if name != ordering.SequenceIDHeader && strings.EqualFold(name, ordering.SequenceIDHeader) {
			return fmt.Errorf("%w; there is a %q, but header names are case-sensitive", errNoSequence, name)
		}
	}
	return errNoSequence
}

// streamOf returns the stream named by a message's routing key, or the root if
// there is none.
func streamOf(m amqp.Delivery) lockkeys.Key {
	if m.Exchange == "" || hasOtherKey(m) { // the routing key is the queue's name, or that of dead letters
		return lockkeys.Root()
	}
	stream, err := lockkeys.Parse(m.RoutingKey)
	if err != nil {
		return lockkeys.Root()
	}
	return stream
}

// hasOtherKey reports whether the message is a dead letter that may have the key of others
// now: one of a [Consumer], or one of the broker that had another routing key before, or
// came to the default exchange, where the key is a queue's name. Messages of different streams would
// have one stream then, and count as duplicates. The first of the keys before is the
// message's own; those of CC follow.
func hasOtherKey(m amqp.Delivery) bool {
	if _, isLetter := m.Headers[QueueHeader]; isLetter {
		return true
	}
	deaths, _ := m.Headers["x-death"].([]any)
	return slices.ContainsFunc(deaths, func(death any) bool {
		entry, _ := death.(amqp.Table)
		keys, _ := entry["routing-keys"].([]any)
		return len(keys) == 0 || keys[0] != any(m.RoutingKey) || entry["exchange"] == ""
	})
}
