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
	// Primary is the usual way, a broker's publisher for example.
	Primary outbox.Publisher
	// Backup is the other way, usually a [Client]. It has to bound its time by
	// itself, as a client does.
	Backup outbox.Publisher

	// Timeout is how long the primary may take to confirm an event before the
	// backup gets it. It should be longer than a confirmation takes under
	// load, or events go both ways for nothing, and while the backup is away
	// none is confirmed. It should be a small part of the time that the caller
	// gives Publish. Default: 50 ms.
	Timeout time.Duration
	// Failures is how many events in a row the primary has to fail for, until
	// events go to the backup without asking it. Default: 3.
	Failures int
	// Probe is how long the primary is left alone then. After that one event
	// at a time tries it, and when one succeeds it is used as before. An event
	// that tries in vain goes to the backup after Timeout at the latest.
	// Default: 1 s.
	Probe time.Duration
	// Alive, if set, is for a primary that knows by itself whether it has its
	// broker. It returns a context that ends, with the cause, when that is
	// lost, one that has ended while there is none, and a new one once the
	// primary has a broker again. Events that wait in the primary go to the
	// backup as soon as the context ends, whatever Timeout is, and the primary
	// is not asked until there is a new one. It is called for every event, so
	// it must be quick. Default: the primary's errors tell.
	Alive func() context.Context

	// Resend is how many events are kept in memory after the primary has
	// confirmed them, the latest ones. When the backup comes into use they are
	// sent by it too, in the order in which they were confirmed: a broker that
	// dies has some that nobody has received, and without this they wait until
	// it is back, unless a later event of their streams shows that they are
	// missing. It should be as many as there may be in the broker's queue, and
	// those that were received are sent all the same: set it only for
	// receivers that know duplicates. What the backup does not take is tried
	// again every Probe, until the primary is in use. With Alive no event is
	// needed to notice that the broker is lost. Backup has to be a [Client], or
	// have its method Send. The events must not be changed after Publish has
	// returned. Default: 0, none.
	Resend int
	// ResendAge is how long ago an event was confirmed that is sent again, at
	// most. It should be longer than events stay in the broker's queue.
	// Default: 1 minute.
	ResendAge time.Duration

	// Logger is told of each switch. Default: slog.Default().
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
	p.Add(c.Primary == nil, "Primary is nil")
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
