package rabbitmq

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// message is a message with its address.
type message struct {
	amqp.Publishing
	exchange, key string
	head          int // approximate bytes without the body, which must fit in one frame
}

// failed returns a [*PublishError].
func (m *message) failed(reason error) error {
	return &PublishError{m.MessageId, m.exchange, m.key, reason}
}

// measure sets head. It returns a [*MessageError] for a message that the protocol
// cannot express: the client would close the connection because of it, and again
// when it is resent.
func (m *message) measure() error {
	texts := [...]struct{ part, value string }{
		{"exchange", m.exchange}, {"routing key", m.key}, {"message ID", m.MessageId}, {"type", m.Type},
		{"correlation ID", m.CorrelationId}, {"reply-to", m.ReplyTo}, {"expiration", m.Expiration}, {"user ID", m.UserId},
		{"app ID", m.AppId}, {"content type", m.ContentType}, {"content encoding", m.ContentEncoding},
	}
	const fixed = 64 // frame, class, size, flags, numbers
	m.head = fixed
	for _, t := range texts {
		if len(t.value) > maxShort {
			return &MessageError{m.MessageId, t.part, errLong(t.value)}
		}
		m.head += 1 + len(t.value)
	}
	for name, value := range m.Headers {
		if len(name) > maxShort {
			return &MessageError{m.MessageId, fmt.Sprintf("header %.80q", name), errLong(name)}
		}
		size, err := fieldSize(value)
		if err != nil {
			return &MessageError{m.MessageId, fmt.Sprintf("header %q", name), err}
		}
		m.head += 1 + len(name) + size
	}
	return nil
}

// fits returns an error if the message's head is more than a frame holds.
func (m *message) fits(frame int) error {
	if frame == 0 || m.head <= frame { // 0 is for no bound
		return nil
	}
	return &MessageError{m.MessageId, "headers", &headError{m.head, frame}}
}

// headError: a message's headers and properties do not fit in a frame.
type headError struct{ head, frame int }

func (e *headError) Error() string {
	return fmt.Sprintf("about %d bytes with the properties, and a frame holds %d: put large values into the payload", e.head, e.frame)
}

func errLong(text string) error {
	return fmt.Errorf("%d bytes long: the protocol allows %d", len(text), maxShort)
}

// fieldSize returns the bytes of a header's value.
func fieldSize(value any) (int, error) {
	switch v := value.(type) {
	case string:
		return 5 + len(v), nil
	case []byte:
		return 5 + len(v), nil
	case nil, bool, byte, int8, int, int16, int32, int64, uint16, uint32, float32, float64, amqp.Decimal, time.Time:
		return 9, nil // at most
	case []any:
		total := 5
		for _, item := range v {
			size, err := fieldSize(item)
			if err != nil {
				return 0, err
			}
			total += size
		}
		return total, nil
	case amqp.Table:
		total := 5
		for name, item := range v {
			if len(name) > maxShort {
				return 0, fmt.Errorf("name %.80q: %w", name, errLong(name))
			}
			size, err := fieldSize(item)
			if err != nil {
				return 0, err
			}
			total += 1 + len(name) + size
		}
		return total, nil
	default:
		return 0, fmt.Errorf("the protocol has no type for a %T", value)
	}
}
