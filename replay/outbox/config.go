package outbox

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/ordering"
)

// Config configures an [Outbox]; the zero value of a field means its default.
type Config struct {
	// Retention is how long an event is kept after it was sent. It should be
	// longer than any receiver is ever down or behind, since missing events can
	// be fetched until then. Unsent events are kept for ever. Negative: those
	// that this Outbox enqueues are kept for ever, whoever prunes the tables.
	// Default: 7 days.
	Retention time.Duration
	// Local is for events that nobody is sent: they count as sent when they are
	// enqueued, so that no relay finds them. It is for an event log without
	// receivers. Default: a relay sends them.
	Local bool
	// Check, if set, is called by [Outbox.Enqueue] with every event, before
	// anything is written. Its error refuses the event, wrapped by Enqueue's. It
	// keeps out events that cannot be sent, those with streams in two partitions
	// for example: after the commit, such an event can only be parked, with all
	// its streams. For a broker's partitions there is rabbitmq.Partitions.Check.
	//
	// The event is complete except for its numbers: each is
	// [ordering.MaxNumber] of Epoch, the longest. It must not be changed. Check
	// is called on the goroutine of Enqueue, possibly by several at once, while
	// the transaction is open: it should be quick, and not use the database.
	// Default: all events are accepted.
	Check func(e *ordering.Event) error
	// Also, if set, does more in the step in which events are added. Default: nothing.
	Also Also
	// Logger logs the decisions of operators. Default: slog.Default().
	Logger *slog.Logger
	// Epoch is the epoch in which numbers are assigned, see [ordering.Position].
	// Raise it by one whenever the database was restored from a backup, or has
	// otherwise lost events that may have been sent: see the package
	// documentation. A stream with numbers of a later epoch continues in that.
	// Default: 0.
	Epoch uint16
}

// Also does more whenever events are added to an outbox, in the same step: what it
// writes is there exactly if they are. An event log gives them places in its order.
type Also interface {
	// Statements returns statements that Added uses often, which are prepared on
	// SQLite.
	Statements() []string
	// Added is called after events were added, on the goroutine of Enqueue or EnqueueAll
	// and with its context. If it fails, they are not added, and its error is wrapped; on
	// SQLite the transaction is rolled back.
	Added(ctx context.Context, tx Tx, added []Enqueued) error
}

// Tx is a transaction in which events are enqueued, as [sql.Tx] is.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (c Config) withDefaults() Config {
	settings.Default(&c.Retention, 7*24*time.Hour)
	if c.Check == nil {
		c.Check = func(*ordering.Event) error { return nil }
	}
	c.Logger = safelog.New(c.Logger)
	return c
}

// RelayConfig configures a [Relay]; the zero value of a field means its default.
type RelayConfig struct {
	// Window bounds the events published concurrently. They have no stream in
	// common. For each, the following events of its stream may be loaded
	// already, up to 32 events or 64 KiB. Default: 64.
	Window int
	// MaxSlow bounds the additional events whose calls of Publish have lasted
	// longer than a second: they leave their places in the window to others,
	// since a receiver that never answers may have many streams. Negative for
	// none. Default: 16 times Window.
	MaxSlow int
	// MaxBytes bounds the events published concurrently, by the size of their
	// JSON; one may exceed it. Default: 64 MiB.
	MaxBytes int64
	// Timeout bounds one call of Publish. Default: 30 s.
	Timeout time.Duration
	// Backoff is the wait of an event after a failed attempt, and of the relay
	// when its database fails. Default: from 100 ms to 30 s.
	Backoff dispatcher.Backoff
	// MaxAttempts is the number of failed attempts after which an event is
	// parked, with all its streams, until an operator decides; see
	// [Outbox.Parked]. Failures for lack of a connection do not count if Alive
	// reports it; failures of one receiver do, a queue that was deleted for
	// example. So choose enough attempts to outlast its absence, or leave it at
	// 0 and let the publisher mark events that it will never send by
	// [dispatcher.Permanent]. A restarted relay counts from 0 again. Default: 0,
	// no bound.
	MaxAttempts int
	// MaxFailing bounds the failed events kept in memory, about 500 bytes for
	// each and its stream, with their attempts and the time of the next one. They
	// use at most half of Window, so they never hold up other events. Further
	// failed ones have no back-off and no MaxAttempts: they are tried again in
	// turn with new events, Window of both each Poll. Default: 65,536.
	MaxFailing int
	// Alive, if set, is for a publisher that knows by itself whether it can
	// reach any receiver, by the connection to its broker for example. It returns
	// a context that ends, with the cause, when the connection is lost; one that
	// has ended while there is none; and a new one once there is one again. Until
	// then the relay starts nothing, and attempts that fail meanwhile do not
	// count. It is called often, so it must be quick. Default: the publisher's
	// method of this name and type, if it has one; otherwise only its errors
	// count, for each event separately.
	Alive func() context.Context
	// Poll is the interval of looking for events without [Outbox.Notify], and,
	// for a waiting relay, of checking whether the active one has ended. Default:
	// 250 ms.
	Poll time.Duration
	// Grace is how long Run waits, after its context has ended, for the
	// confirmations of events being published. Default: 5 s.
	Grace time.Duration
	// Logger logs events that fail, ten lines a minute and the number of others,
	// and their success; parked events; the loss of the publisher's connection;
	// and errors of the database. Default: slog.Default().
	Logger *slog.Logger
}

func (c RelayConfig) withDefaults() RelayConfig {
	settings.Default(&c.Window, 64)
	settings.Default(&c.MaxSlow, 16*c.Window)
	c.MaxSlow = max(c.MaxSlow, 0)
	settings.Default(&c.MaxBytes, 64<<20)
	settings.Default(&c.Timeout, 30*time.Second)
	c.Backoff = c.Backoff.WithDefaults(100*time.Millisecond, 30*time.Second)
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
	backoff := c.Backoff.Validate()
	p.Add(backoff != nil, "%w", backoff)
	p.Add(c.MaxAttempts < 0, "MaxAttempts is %d: it must be positive, or 0 for no bound", c.MaxAttempts)
	p.Add(c.MaxFailing < 1, "MaxFailing is %d: it must be at least 1", c.MaxFailing)
	p.Add(c.Poll < 0, "Poll is %v: it must not be negative", c.Poll)
	p.Add(c.Grace < 0, "Grace is %v: it must not be negative", c.Grace)
	return p.Err(ErrConfig)
}
