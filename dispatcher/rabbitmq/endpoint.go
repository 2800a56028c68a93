package rabbitmq

import (
	"log/slog"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
)

// Endpoint is a broker and how it is reached. It is part of the configuration
// of consumers and publishers; the zero value of a field means its default.
type Endpoint struct {
	// URL is the broker's, as in "amqp://user:password@host:5672/vhost". It,
	// URLs or Dial is required.
	URL string
	// URLs are other nodes of the same cluster. Connections are made to one
	// after the other, beginning with URL, then with the one after that which
	// was used last. The next one is tried as soon as one fails, or has not
	// answered within a second; what answers first is used. Default: none.
	URLs []string
	// Dial opens connections, in place of URL and URLs. Make it with [Dial], or
	// headers that the client cannot read end the connection; see
	// [DroppedHeader].
	Dial Dialer
	// Topology is declared on each new connection, before anything else, and
	// by a publisher again when a message has nowhere to go that it says should
	// be there. By default nothing is declared.
	Topology Topology
	// AnswerTimeout is how long the broker may take to connect, and to answer
	// each time that it is asked for a channel, or to declare or consume
	// something. Then the connection is given up. A cluster whose node does not
	// answer any more needs some seconds to elect other leaders for its queues;
	// less than that makes it worse. Default: 10 s.
	AnswerTimeout time.Duration
	// MinBackoff is how long to wait about, more or less at random by half,
	// before the first attempt to reconnect; the wait grows by half with each
	// that follows. Default: 100 ms.
	MinBackoff time.Duration
	// MaxBackoff is the longest wait, but for the randomness, and so about how
	// long after the broker it takes until all is back. A connection that lasted
	// longer than this is reconnected after MinBackoff again. Default: 1 s, or
	// MinBackoff if that is longer.
	MaxBackoff time.Duration
	// Logger gets lost connections and what else an operator should know.
	// Default: slog.Default().
	Logger *slog.Logger
}

func (e Endpoint) withDefaults() Endpoint {
	settings.Default(&e.AnswerTimeout, 10*time.Second)
	settings.Default(&e.MinBackoff, 100*time.Millisecond)
	settings.Default(&e.MaxBackoff, max(time.Second, e.MinBackoff))
	if urls := e.urls(); e.Dial == nil && len(urls) > 0 {
		e.Dial = dialAny(urls, e.AnswerTimeout)
	}
	e.Logger = safelog.New(e.Logger)
	return e
}

func (e Endpoint) urls() []string {
	if e.URL == "" {
		return e.URLs
	}
	return slices.Concat([]string{e.URL}, e.URLs)
}

// validate adds what is wrong. It is called after withDefaults.
func (e Endpoint) validate(p *settings.Problems) {
	p.Add(e.Dial == nil, "URL and Dial are empty: one is required, or URLs")
	for _, url := range e.urls() {
		_, err := amqp.ParseURI(url)
		err = withoutURL(err)
		p.Add(err != nil, "URL is not that of a broker: %w", err)
	}
	p.Add(e.AnswerTimeout < 0, "AnswerTimeout is %v: it must not be negative", e.AnswerTimeout)
	p.Add(e.MinBackoff < 0, "MinBackoff is %v: it must not be negative", e.MinBackoff)
	p.Add(e.MaxBackoff < e.MinBackoff, "MaxBackoff is %v: it must not be less than MinBackoff, %v", e.MaxBackoff, e.MinBackoff)
	e.Topology.validate(p)
}
