package rabbitmq

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/internal/settings"
)

// ConsumerConfig configures a [Consumer].
type ConsumerConfig struct {
	Endpoint
	// Queue is the name of the queue. Required. It is declared if it is part
	// of Topology.
	Queue string
	// Receiver receives the messages: one of [Events], [Owner] or [Messages].
	// Required.
	Receiver Receiver
	// Prefetch is the number of unacknowledged messages that the broker sends:
	// the window that can be processed at the same time. Events that wait for
	// earlier ones take at most half of it, see [Events]. Small messages take broker
	// and consumer a third less time each with 1024 than with 256; large ones fill
	// memory. Default: 1024.
	Prefetch int
	// DeadLetter is the address for messages that cannot be decoded or can
	// never run; not that of Queue. By default there is none, and the consumer ends with a
	// [*PoisonError] at the first such message, which stays in the queue.
	DeadLetter Address
	// MaxStuck bounds the dead letters that wait, unacknowledged and outside
	// the window, while they cannot be published. Beyond it nothing else is
	// consumed. Default: 1000.
	MaxStuck int
	// Grace is how long a consumer that stops waits for messages that the
	// receiver has. Default: 30 s.
	Grace time.Duration
	// Tag is the consumer tag. Default: a generated one.
	Tag string
	// Args are arguments of the consumer, x-priority for example, which an
	// [Owner] must not have.
	Args amqp.Table
}

func (c ConsumerConfig) withDefaults() ConsumerConfig {
	c.Endpoint = c.Endpoint.withDefaults()
	settings.Default(&c.Prefetch, 1024)
	settings.Default(&c.MaxStuck, 1000)
	settings.Default(&c.Grace, 30*time.Second)
	return c
}

// mostPrefetch is the largest window that the protocol has room for.
const mostPrefetch = 1<<16 - 1

// validate is called after withDefaults.
func (c ConsumerConfig) validate() error {
	var p settings.Problems
	c.Endpoint.validate(&p)
	p.Add(c.Queue == "", "Queue is empty: name the queue to consume")
	for _, name := range []string{c.Queue, c.Tag, c.DeadLetter.Exchange, c.DeadLetter.Key} {
		addName(&p, name)
	}
	p.Add(c.Queue != "" && c.DeadLetter == Address{Key: c.Queue}, "DeadLetter is the queue itself, to which each dead letter would come back for ever: name another one")
	p.Add(c.Receiver == nil, "Receiver is nil: make one with Events, Owner or Messages")
	if r, ok := c.Receiver.(interface{ lack() string }); ok {
		lack := r.lack()
		p.Add(lack != "", "Receiver: %s", lack)
	}
	p.Add(c.Prefetch < 1 || c.Prefetch > mostPrefetch, "Prefetch is %d: it must be from 1 to %d", c.Prefetch, mostPrefetch)
	p.Add(c.MaxStuck < 0, "MaxStuck is %d: it must not be negative", c.MaxStuck)
	_, owner := c.Receiver.(*owner)
	_, priority := c.Args[argPriority]
	p.Add(owner && priority, "Args has %s: %w", argPriority, errPriority)
	p.Add(c.Grace < 0, "Grace is %v: it must not be negative", c.Grace)
	return p.Err(ErrConfig)
}
