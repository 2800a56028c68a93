package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering"
)

// Publisher sends events to where they are wanted: a broker, an HTTP service,
// another process.
type Publisher interface {
	// Publish sends an event and returns nil once the receiver has confirmed
	// that it has it; until then the event is not sent. An error, a panic, or
	// the end of the context is a failed attempt, after which the event is
	// sent again, though it may have arrived. An error that is marked by
	// [dispatcher.Permanent] says that sending it again will not help: the
	// event and its streams are parked at once; see [Outbox.Parked].
	//
	// Publish is called from up to [RelayConfig.Window] goroutines at once, and
	// up to [RelayConfig.MaxSlow] more where calls last longer than a second,
	// but only one at a time has an event of any one stream. The event is not
	// to be changed. Publish must return when the context ends.
	Publish(ctx context.Context, e *ordering.Event) error
}

// PublisherFunc is a function that is a [Publisher].
type PublisherFunc func(ctx context.Context, e *ordering.Event) error

// Publish implements [Publisher].
func (f PublisherFunc) Publish(ctx context.Context, e *ordering.Event) error { return f(ctx, e) }

// Relay sends the events of an [Outbox], in order on each stream, side by side
// on different ones. Make it with [NewRelay]; its methods may be called from
// any goroutine.
type Relay struct {
	box       *Outbox
	publisher Publisher
	config    RelayConfig

	running atomic.Bool
	stats   struct {
		active, away        atomic.Bool
		sending, failing    atomic.Int64
		confirmed, failures atomic.Uint64
		parked              atomic.Uint64
	}
}

// RelayStats is what a relay does and has done.
type RelayStats struct {
	Active    bool   // it sends, and is not one that waits for another to end
	Away      bool   // the publisher's way to its receivers is lost, and nothing is started; see [RelayConfig.Alive]
	Sending   int    // events, or runs of events of one stream, being published
	Failing   int    // events that have failed and are not confirmed yet
	Confirmed uint64 // events confirmed by the publisher, since the relay was made
	Failures  uint64 // attempts that failed
	Parked    uint64 // events that it parked; those that are parked now: [Outbox.Stats]
}

// NewRelay makes a relay for an outbox. The error wraps [ErrConfig].
func NewRelay(box *Outbox, publisher Publisher, config RelayConfig) (*Relay, error) {
	config = config.withDefaults()
	var p settings.Problems
	p.Add(box == nil, "the outbox is nil: make one with New")
	p.Add(publisher == nil, "the publisher is nil")
	if box != nil && box.dialect == PostgreSQL {
		p.Add(box.db.Stats().MaxOpenConnections == 1, "the database has one connection: a relay keeps one for itself, allow more")
	}
	if err := errors.Join(p.Err(ErrConfig), config.validate()); err != nil {
		return nil, err
	}
	if config.Alive == nil {
		config.Alive = context.Background
		if p, ok := publisher.(interface{ Alive() context.Context }); ok {
			config.Alive = p.Alive
		}
	}
	return &Relay{box: box, publisher: publisher, config: config}, nil
}

// Stats returns what the relay does and has done.
func (r *Relay) Stats() RelayStats {
	return RelayStats{
		Active:    r.stats.active.Load(),
		Away:      r.stats.away.Load(),
		Sending:   int(r.stats.sending.Load()),
		Failing:   int(r.stats.failing.Load()),
		Confirmed: r.stats.confirmed.Load(),
		Failures:  r.stats.failures.Load(),
		Parked:    r.stats.parked.Load(),
	}
}

// Run sends events until the context ends. Then it starts no more, waits for
// the confirmations of those being published, [RelayConfig.Grace] at most,
// marks them as sent and returns nil, with no goroutine left. Whatever goes
// wrong with the database is logged and tried again. The error is [ErrRunning]
// if the relay runs already, and wraps [ErrPooled] if it cannot have a session
// of the database's to itself.
//
// On PostgreSQL it is active while it holds the outbox's advisory lock, and
// waits for that while another relay is.
func (r *Relay) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.running.Store(false)
	pause := r.newBackoff()
	for ctx.Err() == nil {
		began := time.Now()
		err := r.serve(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if errors.Is(err, ErrPooled) {
			return fmt.Errorf("outbox: relay: %w", err)
		}
		if time.Since(began) > r.config.MaxBackoff {
			pause.Reset()
		}
		wait := pause.NextBackOff()
		r.config.Logger.ErrorContext(ctx, "outbox: the relay cannot work with its database", "error", err, "again_in", wait)
		sleep(ctx, wait)
	}
	return nil
}

// newBackoff returns the times to wait after failed attempts.
func (r *Relay) newBackoff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = r.config.InitialBackoff, r.config.MaxBackoff, 2
	return b
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// serve waits until this relay may be the active one, and is. It returns nil
// when ctx has ended.
func (r *Relay) serve(ctx context.Context) error {
	if r.box.dialect != PostgreSQL {
		return r.lead(ctx, r.box.db)
	}
	if err := sqldb.CheckSessions(ctx, r.box.db); err != nil {
		return err
	}
	conn, err := r.box.db.Conn(ctx)
	if err != nil {
		return err
	}
	// The connection is closed, not given back: the lock ends with it.
	defer func() { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }()
	for {
		locked, err := r.lock(ctx, conn)
		if err != nil {
			return err
		}
		if locked {
			return r.lead(ctx, conn)
		}
		if sleep(ctx, r.config.Poll); ctx.Err() != nil {
			return nil
		}
	}
}

// lock tries to take the lock of the outbox's tables, which tells it from
// another outbox in another schema. The lock and the setting are the session's,
// which nobody else has, neither now nor afterwards. Marks may be lost when the server dies:
// such events are sent once more. So no mark waits for the disk.
func (r *Relay) lock(ctx context.Context, conn *sql.Conn) (locked bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if _, err := conn.ExecContext(ctx, `SET synchronous_commit = off`); err != nil {
		return false, err
	}
	const class = 0x6f7574 // any number, to be told from others' locks
	err = conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock(($1::bigint << 32) | 'outbox_events'::regclass::oid::bigint)`, class).Scan(&locked)
	return locked, err
}

// lead is the work of the active relay. All that it asks of the database goes
// through db, so once a connection with the lock is lost nothing more is
// loaded, and soon nothing more is published. What two relays publish until
// then is in order all the same: whoever publishes an event knows that those
// before it were confirmed.
func (r *Relay) lead(ctx context.Context, db database) error {
	r.stats.active.Store(true)
	defer r.stats.active.Store(false)

	pruning, stop := context.WithCancel(ctx)
	var pruner sync.WaitGroup
	pruner.Go(func() { r.tellParked(pruning); r.prune(pruning) })
	defer pruner.Wait()
	defer stop()

	l := newLeader(r, db)
	return l.run(ctx)
}

// tellParked tells what is parked when a relay begins. That is in the log since
// it was parked; but if the answer to its commit was lost, it is not.
func (r *Relay) tellParked(ctx context.Context) {
	switch s, err := r.box.Stats(ctx); {
	case err != nil && ctx.Err() == nil:
		r.config.Logger.WarnContext(ctx, "outbox: it is not known how many events are parked", "error", err)
	case s.Parked > 0:
		r.config.Logger.WarnContext(ctx, "outbox: events are parked with their streams: resume or skip them", "events", s.Parked)
	}
}

// databaseTimeout is how long a relay waits for one answer of its database.
const databaseTimeout = 30 * time.Second

// pruneEvery is how often an active relay deletes what is not retained.
const pruneEvery = time.Minute

func (r *Relay) prune(ctx context.Context) {
	for {
		if _, err := r.box.Prune(ctx); err != nil && ctx.Err() == nil {
			r.config.Logger.WarnContext(ctx, "outbox: sent events were not deleted", "error", err)
		}
		if sleep(ctx, pruneEvery); ctx.Err() != nil {
			return
		}
	}
}

// positionText is for the log.
func positionText(e *ordering.Event) string {
	return fmt.Sprintf("%.200s", ordering.FormatSequenceID(e.Positions))
}
