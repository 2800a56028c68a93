package rabbitmq

import (
	"log/slog"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
)

// Endpoint describes a broker and the connections to it. It is part of the
// configuration of consumers and publishers; the zero value of a field means its
// default.
type Endpoint struct {
	// URL is that of the broker, as in "amqp://user:password@host:5672/vhost".
	// URL, URLs or Dial is required.
	URL string
	// URLs are those of other nodes of the same cluster. Nodes are tried one
	// after the other, the first time beginning with URL, later with the one
	// after the node used last. The next one is tried when one fails, or has not
	// answered within a second; the first that answers is used. While one does
	// not answer, the failed ones are tried again each second. Default: none.
	URLs []string
	// Dial opens connections, in place of URL and URLs. Make it with [Dial];
	// otherwise headers that the client cannot read end the connection, see
	// [DroppedHeader].
	Dial Dialer
	// Topology is declared on each new connection, before anything else. A
	// publisher declares it again when a message cannot be routed although the
	// topology has its route. By default nothing is declared.
	Topology Topology
	// AnswerTimeout bounds connecting, and each answer of the broker to opening
	// a channel, declaring or consuming. After it the connection is given up. A
	// cluster with a node that does not answer needs some seconds to elect new
	// leaders for its queues; a shorter timeout makes that worse. Default: 10 s.
	AnswerTimeout time.Duration
	// Backoff is the wait between attempts to connect, to open a channel, or to
	// repeat what failed for a temporary reason. After an outage, everything
	// works again within about its Max. After a connection that lasted longer
	// than Max, the wait begins with Initial. Default: from 100 ms to 1 s.
	Backoff dispatcher.Backoff
	// Logger logs lost connections and everything else that concerns an
	// operator. Default: slog.Default().
	Logger *slog.Logger
}

func (e Endpoint) withDefaults() Endpoint {
	settings.Default(&e.AnswerTimeout, 10*time.Second)
	e.Backoff = e.Backoff.WithDefaults(100*time.Millisecond, time.Second)
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

// validate adds the problems. It is called after withDefaults.
func (e Endpoint) validate(p *settings.Problems) {
	p.Add(e.Dial == nil, "URL and Dial are empty: one is required, or URLs")
	for _, url := range e.urls() {
		_, err := amqp.ParseURI(url)
		err = withoutURL(err)
		p.Add(err != nil, "URL is invalid: %w", err)
	}
	p.Add(e.AnswerTimeout < 0, "AnswerTimeout is %v: it must not be negative", e.AnswerTimeout)
	backoff := e.Backoff.Validate()
	p.Add(backoff != nil, "%w", backoff)
	e.Topology.validate(p)
}
