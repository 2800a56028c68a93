package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/internal/sqldb"
)

// Outbox has a producer's events, in the producer's database. Make it with [New].
// Its methods are safe for concurrent use. There is nothing to close: the database
// belongs to the caller.
type Outbox struct {
	db        *sql.DB
	dialect   Dialect
	config    Config
	enqueuing statements // of the database of the callers' transactions
	relaying  statements // of db

	// mu guards the channel that the next notice closes.
	mu struct {
		sync.Mutex
		notice chan struct{}
	}
}

// New returns the outbox of a database, and creates or migrates its tables if
// necessary: their names begin with "outbox_", and their version is kept in the
// table "schema_versions". It needs a connection of its own for that. On SQLite it
// prepares some statements, which stay until the database is closed. The error
// wraps [ErrConfig], or [ErrSchema] if the tables have a newer version.
func New(ctx context.Context, db *sql.DB, dialect Dialect, config Config) (*Outbox, error) {
	config = config.withDefaults()
	var p settings.Problems
	p.Add(db == nil, "the database is nil: open one")
	p.Add(dialect != SQLite && dialect != PostgreSQL, "the dialect is unknown: use SQLite or PostgreSQL")
	if err := p.Err(ErrConfig); err != nil {
		return nil, err
	}
	if err := Migrate(ctx, db, dialect); err != nil {
		return nil, err
	}
	o := &Outbox{db: db, dialect: dialect, config: config}
	if err := o.prepareAll(ctx); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	o.mu.notice = make(chan struct{})
	return o, nil
}

// Migrate creates or migrates the tables of an outbox, as [New] does, for a program whose
// own tables refer to them. The error may wrap [ErrSchema].
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect) error {
	if err := sqldb.Migrate(ctx, db, dialect, "outbox", steps(dialect)); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

// Notify tells the relays of this outbox, in this process, that events were
// committed, so that they look at once and not at their next poll. It may be
// called too often, or not at all.
func (o *Outbox) Notify() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.mu.notice)
	o.mu.notice = make(chan struct{})
}

// Notices returns a channel that is closed by the next call of Notify.
func (o *Outbox) Notices() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.notice
}

// Stats counts the unsent events of an outbox.
type Stats struct {
	Unsent int64         // committed events that are not marked as sent
	Parked int64         // of those, the parked ones; see [Outbox.Parked]
	Oldest time.Duration // age of the oldest unsent one; 0 if there is none
}

// Stats counts the unsent events. It reads all their rows, so with a million it
// takes a while.
func (o *Outbox) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	var oldest sql.NullInt64
	err := o.db.QueryRowContext(ctx, `SELECT count(*), count(k.event), min(e.created)
		FROM outbox_events e LEFT JOIN outbox_parked k ON k.event = e.id
		WHERE e.sent IS NULL`).Scan(&s.Unsent, &s.Parked, &oldest)
	if err != nil {
		return Stats{}, fmt.Errorf("outbox: stats: %w", err)
	}
	if oldest.Valid {
		s.Oldest = max(0, time.Since(time.UnixMicro(oldest.Int64)))
	}
	return s, nil
}
