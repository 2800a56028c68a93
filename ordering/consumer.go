package ordering

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// Consumer identifies a user of a store. Everything in a store belongs to a
// consumer's name: two services that use one database under different names
// never see each other's streams, held events, parkings or job states.
type Consumer struct {
	// Name is the name of the service, at most 200 bytes of UTF-8 without NUL.
	// Default: [DefaultConsumer].
	Name string
	// Partition names the part of the consumer's events that the caller
	// processes, if several processes share them. Each partition has its own
	// terms. It has the same bounds as Name. Default: "", all events.
	Partition string
	// Holder describes the caller, for operators. Default: the host name and
	// the process ID.
	Holder string
}

// DefaultConsumer is the default name of a consumer.
const DefaultConsumer = "default"

// maxConsumerText bounds the name and the partition of a consumer, in bytes.
const maxConsumerText = 200

// WithDefaults returns c with defaults in place of empty fields, or an error
// that names an invalid field.
func (c Consumer) WithDefaults() (Consumer, error) {
	if c.Name == "" {
		c.Name = DefaultConsumer
	}
	if c.Holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host"
		}
		c.Holder = fmt.Sprintf("%s, process %d", host, os.Getpid())
	}
	c.Holder = strings.ReplaceAll(strings.ToValidUTF8(c.Holder, "\uFFFD"), "\x00", "\uFFFD")
	for _, field := range []struct{ name, text string }{{"Name", c.Name}, {"Partition", c.Partition}} {
		if len(field.text) > maxConsumerText || !utf8.ValidString(field.text) || strings.Contains(field.text, "\x00") {
			return c, fmt.Errorf("%w: Consumer.%s %.40q: it may have %d bytes of UTF-8 without NUL", ErrConfig, field.name, field.text, maxConsumerText)
		}
	}
	return c, nil
}

// TermInfo describes a term.
type TermInfo struct {
	Consumer           // its name and partition, and the holder of the term
	Number   int64     // 1 for the first term of the partition, and one more for each
	Token    int64     // distinguishes terms of the same number, if the store lost one of them
	Since    time.Time // when it began
	// Previous is the previous term, or nil for the first one.
	Previous *PreviousTerm
}

// PreviousTerm describes the term before another one.
type PreviousTerm struct {
	Holder string
	Since  time.Time
	// Ended reports whether [Term].End was called. If not, its holder has
	// crashed, or still runs and does not know yet that its term is over.
	Ended bool
}
