package rabbitmq

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/internal/contain"
)

// Headers of dead letters, in addition to those of the message. If these leave
// no room in the frame, the largest of them are cut or dropped, and
// [DroppedHeader] has their names.
const (
	ReasonHeader = "x-interlock-reason" // the reason, at most 4 KiB
	QueueHeader  = "x-interlock-queue"  // the queue that it came from
	TimeHeader   = "x-interlock-time"   // the time, as in RFC 3339
)

// Address says where messages are published: an exchange, "" for the default
// one, and a routing key, which for the default exchange is a queue's name.
type Address struct{ Exchange, Key string }

// letterOf converts a message to a dead letter, without expiration, without
// further recipients (CC and BCC), and without the user ID, which the broker
// would check.
func letterOf(m amqp.Delivery, queue string, reason error) amqp.Publishing {
	headers := amqp.Table{}
	maps.Copy(headers, m.Headers)
	for _, name := range []string{"CC", "BCC"} {
		delete(headers, name)
	}
	headers[ReasonHeader], headers[QueueHeader] = reasonText(reason), queue
	headers[TimeHeader] = time.Now().UTC().Format(time.RFC3339Nano)
	return amqp.Publishing{
		Headers: headers, ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, DeliveryMode: amqp.Persistent,
		Priority: m.Priority, CorrelationId: m.CorrelationId, ReplyTo: m.ReplyTo, MessageId: m.MessageId,
		Timestamp: m.Timestamp, Type: m.Type, AppId: m.AppId, Body: m.Body,
	}
}

// own lists the headers of a dead letter that are not cut to make room.
var own = []string{ReasonHeader, QueueHeader, TimeHeader, DroppedHeader}

// cutHead shortens a dead letter's headers until all but the body fits in a
// frame. It returns the names of the headers that were cut or dropped, nil if
// there is none to cut.
func cutHead(letter *amqp.Publishing, head, frame int) (names []string) {
	type header struct {
		name string
		size int
	}
	var others []header
	for name, value := range letter.Headers {
		if size, err := fieldSize(value); err == nil && !slices.Contains(own, name) {
			others = append(others, header{name, 1 + len(name) + size})
		}
	}
	slices.SortFunc(others, func(a, b header) int { return cmp.Or(b.size-a.size, strings.Compare(a.name, b.name)) })
	const notice = 1 << 10 // for DroppedHeader and a short reason
	headers := maps.Clone(letter.Headers)
	if head+notice > frame {
		if text, _ := headers[ReasonHeader].(string); len(text) > notice {
			headers[ReasonHeader] = cutText(text, notice)
			head -= len(text) - notice
			names = append(names, ReasonHeader)
		}
	}
	for _, h := range others {
		if head+notice <= frame {
			break
		}
		names = append(names, h.name)
		head -= h.size
		if text, ok := headers[h.name].(string); ok && len(text) > notice {
			headers[h.name] = cutText(text, notice)
			head += 1 + len(h.name) + 5 + notice
		} else {
			delete(headers, h.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	before, _ := headers[DroppedHeader].(string)
	headers[DroppedHeader] = cutText(strings.TrimPrefix(fmt.Sprintf("%s, %q", before, names), ", "), notice/2)
	letter.Headers = headers
	return names
}

// cutText returns at most so many bytes of a text, without splitting a
// character.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

func reasonText(reason error) string {
	const most = 4 << 10
	if reason == nil {
		return "no reason was given"
	}
	text := contain.Text(reason)
	return strings.ToValidUTF8(text[:min(len(text), most)], "\uFFFD")
}
