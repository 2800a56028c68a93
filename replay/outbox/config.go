package outbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/ordering"
)

// Config configures an [Outbox]; the zero value of a field means its default.
type Config struct {
	// Retention is how long an event is kept after it was sent. It should be
	// longer than any receiver is ever down or behind, for what it lacks can
	// be had until then. Events that were not sent are kept for ever.
	// Default: 7 days.
	Retention time.Duration
	// Check, if set, is called by [Outbox.Enqueue] with every event, before
	// anything of it is written. Its error refuses the event, and Enqueue's
	// wraps it. So it keeps out what the way to the receivers cannot carry, an
	// event with streams in two partitions for example: once the transaction
	// is committed, such an event can only be parked, with all its streams.
	// For a broker's partitions there is rabbitmq.Partitions.Check.
	//
	// The event lacks nothing but its numbers: each is [ordering.MaxNumber],
	// the longest. It is not to be changed. Check is called by whoever
	// enqueues, by several goroutines perhaps, while the transaction is open:
	// it should be quick, and ask no database. Default: all events are taken.
	Check func(e *ordering.Event) error
}

func (c Config) withDefaults() Config {
	settings.Default(&c.Retention, 7*24*time.Hour)
	if c.Check == nil {
		c.Check = func(*ordering.Event) error { return nil }
	}
	return c
}

func (c Config) validate() error {
	var p settings.Problems
	p.Add(c.Retention < 0, "Retention is %v: it must be positive, or 0 for the default", c.Retention)
	return p.Err(ErrConfig)
}

// RelayConfig configures a [Relay]; the zero value of a field means its default.
type RelayConfig struct {
	// Window is the most events that are being published at the same time.
	// They have no stream in common. For each, what follows it on its stream
	// may be loaded already, up to 32 events or 64 KiB. Default: 64.
	Window int
	// MaxSlow is how many more may be published for longer than a second: they
	// leave their places in the window to others, since a receiver that never
	// answers may be that of many streams. Negative for none. Default: 16 times
	// Window.
	MaxSlow int
	// MaxBytes bounds the events that are being published together, by the
	// size of their JSON; one more may pass it. Default: 64 MiB.
	MaxBytes int64
	// Timeout is how long one call of Publish may take. Default: 30 s.
	Timeout time.Duration
	// InitialBackoff is how long an event waits about after its first failed
	// attempt; it doubles with each that follows. Default: 100 ms.
	InitialBackoff time.Duration
	// MaxBackoff is the longest wait. Default: 30 s.
	MaxBackoff time.Duration
	// MaxAttempts is how often an event may fail before it is parked, with all
	// its streams, until an operator decides; see [Outbox.Parked]. What fails
	// because the way to all receivers is lost does not count where Alive
	// tells of that; what fails because one receiver is away does, a queue
	// that was deleted for example. So choose so many that they outlast its
	// absence, or leave it at 0 and have the publisher mark what it will never
	// send by [dispatcher.Permanent]. A relay that starts anew counts anew.
	// Default: 0, for no bound.
	MaxAttempts int
	// MaxFailing is how many events that have failed are kept in mind, about
	// 500 bytes for each and its stream, with their attempts and when the next
	// one is due. At most half of Window is spent on them, so however many they
	// are, they hold up nobody else. If there are more, those have no back-off
	// and no MaxAttempts of their own: they are tried again in turn with what
	// is new, Window events of both kinds each Poll. Default: 65,536.
	MaxFailing int
	// Alive, if set, is for a publisher that knows by itself whether it has a
	// way to its receivers at all, the connection to its broker for example. It
	// returns a context that ends, with the cause, when that is lost, one that
	// has ended while there is none, and a new one once it is back. Until then
	// the relay starts nothing, and what fails meanwhile counts as not tried.
	// It is called often, so it must be quick. Default: the publisher's method
	// of this name and kind, if it has one; or else its errors tell, for each
	// event on its own.
	Alive func() context.Context
	// Poll is how often the database is asked for events that nobody gave
	// notice of with [Outbox.Notify], and by a relay in waiting whether the
	// active one is gone. Default: 250 ms.
	Poll time.Duration
	// Grace is how long Run goes on waiting, after its context has ended, for
	// the confirmations of what is being published. Default: 5 s.
	Grace time.Duration
	// Logger gets events that fail, ten lines a minute and how many more there
	// were, and their success; parked events; a publisher that is away; and
	// trouble with the database.
	// Default: slog.Default().
	Logger *slog.Logger
}

func (c RelayConfig) withDefaults() RelayConfig {
	settings.Default(&c.Window, 64)
	settings.Default(&c.MaxSlow, 16*c.Window)
	c.MaxSlow = max(c.MaxSlow, 0)
	settings.Default(&c.MaxBytes, 64<<20)
	settings.Default(&c.Timeout, 30*time.Second)
	settings.Default(&c.InitialBackoff, 100*time.Millisecond)
	settings.Default(&c.MaxBackoff, max(30*time.Second, c.InitialBackoff))
	settings.Default(&c.MaxFailing, 1<<16)
	settings.Default(&c.Poll, 250*time.Millisecond)
	settings.Default(&c.Grace, 5*time.Second)
	c.Logger = safelog.New(c.Logger)
	return c
}

// maxWindow keeps the statement that loads a window within the databases'
// bounds for arguments.
const maxWindow = 8192

func (c RelayConfig) validate() error {
	var p settings.Problems
	p.Add(c.Window < 1 || c.Window > maxWindow, "Window is %d: it must be from 1 to %d", c.Window, maxWindow)
	p.Add(c.MaxBytes < 0, "MaxBytes is %d: it must not be negative", c.MaxBytes)
	p.Add(c.Timeout < 0, "Timeout is %v: it must not be negative", c.Timeout)
	p.Add(c.InitialBackoff < 0, "InitialBackoff is %v: it must not be negative", c.InitialBackoff)
	p.Add(c.MaxBackoff < c.InitialBackoff, "MaxBackoff is %v: it must not be less than InitialBackoff, %v", c.MaxBackoff, c.InitialBackoff)
	p.Add(c.MaxAttempts < 0, "MaxAttempts is %d: it must be positive, or 0 for no bound", c.MaxAttempts)
	p.Add(c.MaxFailing < 1, "MaxFailing is %d: it must be at least 1", c.MaxFailing)
	p.Add(c.Poll < 0, "Poll is %v: it must not be negative", c.Poll)
	p.Add(c.Grace < 0, "Grace is %v: it must not be negative", c.Grace)
	return p.Err(ErrConfig)
}
