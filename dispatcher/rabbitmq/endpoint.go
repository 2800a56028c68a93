package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/internal/settings"
)

// Endpoint is a broker and how it is reached. It is part of the configuration
// of consumers and publishers; the zero value of a field means its default.
type Endpoint struct {
	// URL is the broker's, as in "amqp://user:password@host:5672/vhost".
	// Either it or Dial is required.
	URL string
	// Dial opens connections, in place of URL: to one of several nodes, or
	// with TLS; see [Dial].
	Dial Dialer
	// Topology is declared on each new connection, before anything else. By
	// default nothing is declared.
	Topology Topology
	// MinBackoff is how long to wait about, more or less at random by half,
	// before the first attempt to reconnect; the wait grows by half with each
	// that follows. Default: 100 ms.
	MinBackoff time.Duration
	// MaxBackoff is the longest wait. A connection that lasted longer than
	// this is reconnected after MinBackoff again. Default: 5 s, or MinBackoff
	// if that is longer.
	MaxBackoff time.Duration
	// Logger gets lost connections and what else an operator should know.
	// Default: slog.Default().
	Logger *slog.Logger
}

func (e Endpoint) withDefaults() Endpoint {
	if e.Dial == nil && e.URL != "" {
		e.Dial = Dial(e.URL, amqp.Config{})
	}
	settings.Default(&e.MinBackoff, 100*time.Millisecond)
	settings.Default(&e.MaxBackoff, max(5*time.Second, e.MinBackoff))
	if e.Logger == nil {
		e.Logger = slog.Default()
	}
	return e
}

// validate adds what is wrong. It is called after withDefaults.
func (e Endpoint) validate(p *settings.Problems) {
	p.Add(e.Dial == nil, "URL and Dial are empty: one is required")
	if e.URL != "" {
		_, err := amqp.ParseURI(e.URL)
		err = withoutURL(err)
		p.Add(err != nil, "URL is not that of a broker: %w", err)
	}
	p.Add(e.MinBackoff < 0, "MinBackoff is %v: it must not be negative", e.MinBackoff)
	p.Add(e.MaxBackoff < e.MinBackoff, "MaxBackoff is %v: it must not be less than MinBackoff, %v", e.MaxBackoff, e.MinBackoff)
	e.Topology.validate(p)
}

// Dialer opens a connection to a broker. It must return when ctx ends, and must
// not switch on the client's own recovery ([amqp.Config].Recovery): that would
// let acknowledgements of a lost connection reach a new one, where they mean
// other messages. It may be called from several goroutines at once.
type Dialer func(ctx context.Context) (*amqp.Connection, error)

// dialTimeout bounds connecting and the handshakes.
const dialTimeout = 30 * time.Second

// Dial returns a Dialer for url. TLS is used for a URL that begins with
// "amqps:", with config.TLSClientConfig if that is set. The config is not
// changed. Connecting and the handshakes take 30 seconds at most, or what
// config.Dial has set.
func Dial(url string, config amqp.Config) Dialer {
	return func(ctx context.Context) (*amqp.Connection, error) {
		c := config
		if c.TLSClientConfig != nil { // the client adds to it
			c.TLSClientConfig = c.TLSClientConfig.Clone()
		}
		c.Properties = maps.Clone(c.Properties) // and to these
		var socket net.Conn
		stop := func() bool { return true }
		c.Dial = func(network, addr string) (net.Conn, error) {
			var err error
			if socket, err = dialSocket(ctx, config.Dial, network, addr); err == nil {
				stop = context.AfterFunc(ctx, func() { _ = socket.Close() })
			}
			return socket, err
		}
		conn, err := amqp.DialConfig(url, c)
		if inTime := stop(); !inTime || err != nil {
			if socket != nil {
				_ = socket.Close() // the client leaves it open if a handshake fails
			}
			return nil, fmt.Errorf("rabbitmq: connecting: %w", errors.Join(context.Cause(ctx), withoutURL(err)))
		}
		return conn, nil
	}
}

// errURL: a URL is not one.
var errURL = errors.New("it is not as in amqp://user:password@host:5672/vhost, with special characters in a part written %XX")

// withoutURL replaces an error that quotes a URL, which has a password.
func withoutURL(err error) error {
	if errors.As(err, new(*url.Error)) {
		return errURL
	}
	return err
}

func dialSocket(ctx context.Context, dial func(network, addr string) (net.Conn, error), network, addr string) (net.Conn, error) {
	if dial != nil {
		return dial(network, addr)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	socket, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return socket, socket.SetDeadline(time.Now().Add(dialTimeout)) // the client removes it after the handshake
}
