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
)

// Headers of dead letters, beside those that the message had. Where these leave
// no room in the frame, the largest of them are cut or dropped, and
// [DroppedHeader] has their names.
const (
	ReasonHeader = "x-interlock-reason" // why, at most 4 KiB
	QueueHeader  = "x-interlock-queue"  // whence
	TimeHeader   = "x-interlock-time"   // when, as RFC 3339
)

// Address is where messages are published: an exchange, "" for the default
// one, and a routing key, which for the default exchange is a queue's name.
type Address struct{ Exchange, Key string }

// letterOf is a message as a dead letter. It is not to expire, goes nowhere
// else, and is not from whom the broker would have to know.
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

// own are the headers of a dead letter that are not cut for others.
var own = []string{ReasonHeader, QueueHeader, TimeHeader, DroppedHeader}

// cutHead makes a dead letter's headers smaller, until all but the body has room
// in a frame of the broker's. It returns the names of those that are cut or gone,
// which is none if nothing can be done.
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
	const notice = 1 << 10 // for DroppedHeader, and a reason that is short
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

// cutText returns at most so many bytes of a text, and no part of a character.
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
	text := reason.Error()
	return strings.ToValidUTF8(text[:min(len(text), most)], "\uFFFD")
}
