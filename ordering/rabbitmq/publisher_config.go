package rabbitmq

import (
	"time"

	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/ordering"
)

// PublisherConfig configures a [Publisher]; the zero value of a field means its
// default.
type PublisherConfig struct {
	// Endpoint is the broker. A publisher has a connection of its own, since a
	// broker that is short of memory stops reading from those that publish,
	// acknowledgements included.
	Endpoint
	// Route says where an event is published: an exchange, "" for the default
	// one, and a routing key, which for the default exchange is the name of a
	// queue. Its error becomes that of the event. It is called from any
	// goroutine. Required.
	Route func(e *ordering.Event) (exchange, key string, err error)
	// Channels is the number of channels; see [Publisher] for which event is
	// on which. Default: 4.
	Channels int
	// Window is the largest number of unconfirmed messages of a channel. They
	// are kept in memory, since they may have to be sent again. Beyond it
	// publishing waits. Default: 256.
	Window int
	// ConfirmTimeout is how long a channel may wait for the confirmation of its
	// oldest message while the broker accepts messages. Then the channel, or the
	// connection if that does not answer either, is given up, and all unconfirmed
	// messages are sent again. Default: 30 s.
	ConfirmTimeout time.Duration
}

func (c PublisherConfig) withDefaults() PublisherConfig {
	c.Endpoint = c.Endpoint.withDefaults()
	settings.Default(&c.Channels, 4)
	settings.Default(&c.Window, 256)
	settings.Default(&c.ConfirmTimeout, 30*time.Second)
	return c
}

const (
	maxChannels = 1024 // a connection has 2047 by default
	maxWindow   = 1 << 16
)

// validate is called after withDefaults.
func (c PublisherConfig) validate() error {
	var p settings.Problems
	c.Endpoint.validate(&p)
	p.Add(c.Channels < 1 || c.Channels > maxChannels, "Channels is %d: it must be from 1 to %d", c.Channels, maxChannels)
	p.Add(c.Window < 1 || c.Window > maxWindow, "Window is %d: it must be from 1 to %d", c.Window, maxWindow)
	p.Add(c.ConfirmTimeout < 0, "ConfirmTimeout is %v: it must not be negative", c.ConfirmTimeout)
	p.Add(c.Route == nil, "Route is nil: give a function that returns the exchange and routing key of an event")
	return p.Err(ErrConfig)
}
