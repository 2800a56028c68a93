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

	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering"
)

// Publisher sends events to their receivers: a broker, an HTTP service, another
// process.
type Publisher interface {
	// Publish sends an event and returns nil once the receiver has confirmed it;
	// until then the event counts as unsent. An error, a panic, or the end of the
	// context is a failed attempt, after which the event is sent again, though it
	// may have arrived. After an error that is marked by [dispatcher.Permanent]
	// the event and its streams are parked at once; see [Outbox.Parked].
	//
	// Publish is called from up to [RelayConfig.Window] goroutines at once, and
	// up to [RelayConfig.MaxSlow] more if calls last longer than a second, but
	// never concurrently for events of the same stream. The event must not be
	// changed. Publish must return when the context ends.
	Publish(ctx context.Context, e *ordering.Event) error
}

// PublisherFunc is a function that is a [Publisher].
type PublisherFunc func(ctx context.Context, e *ordering.Event) error

// Publish implements [Publisher].
func (f PublisherFunc) Publish(ctx context.Context, e *ordering.Event) error { return f(ctx, e) }

// Relay sends the events of an [Outbox], in order on each stream, in parallel on
// different ones. Make it with [NewRelay]; its methods are safe for concurrent
// use.
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

// RelayStats counts what a relay has done since it was made.
type RelayStats struct {
	Active    bool   // it is the active relay, and does not wait for another to end
	Away      bool   // the publisher's connection is lost, and nothing is started; see [RelayConfig.Alive]
	Sending   int    // events, or runs of events of one stream, being published
	Failing   int    // events that have failed and are not confirmed yet
	Confirmed uint64 // events confirmed by the publisher
	Failures  uint64 // failed attempts
	Parked    uint64 // events parked by this relay; for those parked now see [Outbox.Stats]
}

// NewRelay makes a relay for an outbox. The error wraps [ErrConfig].
func NewRelay(box *Outbox, publisher Publisher, config RelayConfig) (*Relay, error) {
	config = config.withDefaults()
	var p settings.Problems
	p.Add(box == nil, "the outbox is nil: make one with New")
	p.Add(publisher == nil, "the publisher is nil: give one")
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

// Stats returns the counts at this moment.
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

// Run sends events until the context ends. Then it starts no more, waits for the
// confirmations of those being published, at most [RelayConfig.Grace], marks them
// as sent and returns nil, with no goroutine left. Errors of the database are
// logged, and everything is tried again. The error is [ErrRunning] if the relay
// runs already, and wraps [ErrPooled] if it cannot have a session of the database
// to itself.
//
// On PostgreSQL a relay is active while it holds the outbox's advisory lock, and
// waits while another one does.
func (r *Relay) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.running.Store(false)
	failed := 0
	for ctx.Err() == nil {
		began := time.Now()
		err := r.serve(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if errors.Is(err, ErrPooled) {
			return fmt.Errorf("outbox: relay: %w", err)
		}
		if time.Since(began) > r.config.Backoff.Max {
			failed = 0
		}
		failed++
		wait := r.config.Backoff.Wait(failed)
		r.config.Logger.ErrorContext(ctx, "outbox: the relay's database failed", "err", err, "again_in", wait)
		sleep(ctx, wait)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// serve waits until this relay may be active, and then leads. It returns nil when
// ctx has ended.
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
	// The connection is closed, not returned to the pool: the lock ends with it.
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

// lock tries to take the lock of the outbox's tables, which differs from that of
// an outbox in another schema. The lock and the setting belong to the session,
// which is used for nothing else, now or afterwards. Marks need not wait for the
// disk: if they are lost when the server crashes, the events are sent once more.
func (r *Relay) lock(ctx context.Context, conn *sql.Conn) (locked bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if _, err := conn.ExecContext(ctx, `SET synchronous_commit = off`); err != nil {
		return false, err
	}
	const class = 0x6f7574 // any number, to differ from other programs' locks
	err = conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock(($1::bigint << 32) | 'outbox_events'::regclass::oid::bigint)`, class).Scan(&locked)
	return locked, err
}

// lead is the work of the active relay. It uses the database only through db, so
// once the connection with the lock is lost nothing more is loaded, and soon
// nothing more is published. Even if two relays publish until then, order is kept:
// each publishes an event only after those before it were confirmed.
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

// tellParked logs the number of parked events when a relay begins. Each was logged
// when it was parked, unless the answer to the commit was lost.
func (r *Relay) tellParked(ctx context.Context) {
	switch s, err := r.box.Stats(ctx); {
	case err != nil && ctx.Err() == nil:
		r.config.Logger.WarnContext(ctx, "outbox: the number of parked events is unknown", "err", err)
	case s.Parked > 0:
		r.config.Logger.WarnContext(ctx, "outbox: events are parked with their streams: resume, skip or drop them", "events", s.Parked)
	}
}

// databaseTimeout bounds one operation of the database.
const databaseTimeout = 30 * time.Second

// pruneEvery is the interval at which an active relay calls Prune.
const pruneEvery = time.Minute

func (r *Relay) prune(ctx context.Context) {
	for {
		if _, err := r.box.Prune(ctx); err != nil && ctx.Err() == nil {
			r.config.Logger.WarnContext(ctx, "outbox: sent events were not deleted", "err", err)
		}
		if sleep(ctx, pruneEvery); ctx.Err() != nil {
			return
		}
	}
}

// positionText returns an event's positions for the log.
func positionText(e *ordering.Event) string {
	return fmt.Sprintf("%.200s", ordering.FormatSequenceID(e.Positions))
}
