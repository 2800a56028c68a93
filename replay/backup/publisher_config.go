package backup

import (
	"context"
	"log/slog"
	"time"

	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/replay/outbox"
)

// PublisherConfig configures a [Publisher]. Primary and Backup are required;
// the zero value of every other field means its default.
type PublisherConfig struct {
	// Primary is the usual channel, a broker's publisher for example.
	Primary outbox.Publisher
	// Backup is the other channel, usually a [Client]. It must have a timeout of
	// its own, as a client does.
	Backup outbox.Publisher

	// Timeout is the time for the primary to confirm an event before the backup
	// gets it. It should be longer than a confirmation takes under load;
	// otherwise events go both ways needlessly, and while the backup is down
	// none is confirmed. It should be a small part of the time that the caller
	// gives Publish. Default: 50 ms.
	Timeout time.Duration
	// Failures is the number of consecutive failures of the primary after which
	// events go directly to the backup. Default: 3.
	Failures int
	// Probe is the time after which one event at a time tries the primary again;
	// when one succeeds, the primary is used as before. A failed probe goes to
	// the backup, after Timeout at the latest. Default: 1 s.
	Probe time.Duration
	// Alive, if set, is for a primary that knows by itself whether it has its
	// broker. It returns a context that ends, with the cause, when the broker is
	// lost; one that has ended while there is none; and a new one once there is
	// one again. Events that wait in the primary go to the backup as soon as the
	// context ends, whatever Timeout is, and the primary is not tried until
	// there is a new one. It is called for every event, so it must be quick. By
	// default only the primary's errors count.
	Alive func() context.Context

	// Resend is the number of events, the latest that the primary has confirmed,
	// that are kept in memory and sent through the backup too when it comes into
	// use, in the order of confirmation. A broker that dies has some undelivered
	// ones, which otherwise wait until it is back, unless a later event of their
	// streams shows that they are missing. It should be the largest length of the
	// broker's queue. Delivered events are sent as well: set it only for receivers
	// that recognize duplicates. Events that the backup does not confirm are tried
	// again every Probe, until the primary is in use. With Alive no event is
	// needed to notice the loss of the broker. Backup must be a [Client], or have
	// its method Send. The events must not be changed after Publish has returned.
	// Default: 0, none.
	Resend int
	// ResendAge is the largest age of an event that is sent again, since its
	// confirmation. It should be longer than events stay in the broker's queue.
	// Default: 1 minute.
	ResendAge time.Duration

	// Logger logs each switch. Default: slog.Default().
	Logger *slog.Logger
}

func (c PublisherConfig) withDefaults() PublisherConfig {
	settings.Default(&c.Timeout, 50*time.Millisecond)
	settings.Default(&c.Failures, 3)
	settings.Default(&c.Probe, time.Second)
	settings.Default(&c.ResendAge, time.Minute)
	if c.Alive == nil {
		c.Alive = context.Background
	}
	c.Logger = safelog.New(c.Logger)
	return c
}

func (c PublisherConfig) validate() error {
	var p settings.Problems
	p.Add(c.Primary == nil, "Primary is nil: give a publisher, that of a broker for example")
	p.Add(c.Backup == nil, "Backup is nil: give a Client")
	p.Add(c.Timeout < 0, "Timeout is %v: it must not be negative", c.Timeout)
	p.Add(c.Failures < 0, "Failures is %d: it must not be negative", c.Failures)
	p.Add(c.Probe < 0, "Probe is %v: it must not be negative", c.Probe)
	p.Add(c.Resend < 0, "Resend is %d: it must not be negative", c.Resend)
	_, batches := c.Backup.(batchSender)
	p.Add(c.Resend > 0 && c.Backup != nil && !batches, "Resend is set, and Backup has no method Send: give a Client")
	p.Add(c.ResendAge < 0, "ResendAge is %v: it must not be negative", c.ResendAge)
	return p.Err(ErrConfig)
}
