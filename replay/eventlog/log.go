package eventlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/outbox"
)

// Dialect says which database it is: [SQLite] or [PostgreSQL].
type Dialect = outbox.Dialect

// Dialects.
const (
	SQLite     = outbox.SQLite     // from version 3.35 on
	PostgreSQL = outbox.PostgreSQL // from version 12 on
)

// Root is the first segment of the streams that number the entries of a log; see
// [Partition].
const Root = "log"

// Config configures a [Log]; the zero value of a field means its default.
type Config struct {
	// Sent says that the events are also sent to receivers, by relays of
	// [Log.Outbox]. Default: they are only kept.
	Sent bool
	// Partitions is the number of partitions. Each has an order of its own, and
	// appends to one are committed one after the other, so that their order is that
	// of the commits; on PostgreSQL an append waits for the flush of the one before.
	// It is fixed when the tables are created, and another number is refused. Default: 1.
	Partitions int
	// PartitionOf returns the partition of a stream, from 0 to Partitions-1. All
	// streams of an event must be in one. It must be the same in all processes, for
	// ever. Required if there are several partitions.
	PartitionOf func(stream lockkeys.Key) int
	// Upcasters turn events of old types into new ones when they are read.
	Upcasters []Upcaster
	// Check, if set, may refuse an event before it is appended; see
	// [outbox.Config.Check].
	Check func(e *ordering.Event) error
	// Epoch is the epoch of versions and places. Raise it by one whenever the
	// database has lost entries, since an old backup was restored for example: see
	// [outbox.Config.Epoch].
	Epoch uint16
	// Logger logs what a reader passes over: snapshots that cannot be read.
	// Default: slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	settings.Default(&c.Partitions, 1)
	if c.PartitionOf == nil {
		c.PartitionOf = func(lockkeys.Key) int { return 0 }
	}
	c.Logger = safelog.New(c.Logger)
	return c
}

// maxPartitions keeps the keys of partitions, and the statements of one append, few.
const maxPartitions = 1024

func (c Config) problems() (p settings.Problems) {
	p.Add(c.Partitions < 0 || c.Partitions > maxPartitions, "Partitions is %d: it must be from 1 to %d", c.Partitions, maxPartitions)
	p.Add(c.Partitions > 1 && c.PartitionOf == nil, "PartitionOf is nil: it must say which of the %d partitions a stream is in", c.Partitions)
	return p
}

// Log is an event log in a database. Make it with [New]. Its methods are safe for
// concurrent use. There is nothing to close: the database belongs to the caller, and
// on SQLite has a few prepared statements of the log until it is closed.
type Log struct {
	db        *sql.DB
	dialect   Dialect
	config    Config
	box       *outbox.Outbox
	next      *sql.Stmt // what subscriptions ask again and again, on SQLite, where parsing it takes longer than running it
	upcasters upcasters
}

// New returns the event log of a database, and creates or migrates its tables if
// necessary: those of an outbox, and others whose names begin with "eventlog_". The
// error wraps [ErrConfig], or [ErrSchema] if the tables have a newer version.
//
// On SQLite the database has one writer at a time. Beside a store of package
// sqlstore, give the log the store's [sqlstore.Store.DB], and append in the store's
// transactions.
func New(ctx context.Context, db *sql.DB, dialect Dialect, config Config) (*Log, error) {
	problems := config.problems()
	config = config.withDefaults()
	upcasters, err := newUpcasters(config.Upcasters)
	if err != nil {
		problems.Add(true, "Upcasters: %w", err)
	}
	problems.Add(db == nil, "the database is nil: open one")
	problems.Add(dialect != SQLite && dialect != PostgreSQL, "the dialect is unknown: use SQLite or PostgreSQL")
	if err := problems.Err(ErrConfig); err != nil {
		return nil, err
	}
	l := &Log{db: db, dialect: dialect, config: config, upcasters: upcasters}
	if err := outbox.Migrate(ctx, db, dialect); err != nil { // the tables of the log refer to its tables
		return nil, fmt.Errorf("eventlog: %w", err)
	}
	if err := sqldb.Migrate(ctx, db, dialect, "eventlog", steps(dialect, config.Partitions)); err != nil {
		return nil, fmt.Errorf("eventlog: %w", err)
	}
	if err := l.checkPartitions(ctx); err != nil {
		return nil, err
	}
	l.box, err = outbox.New(ctx, db, dialect, outbox.Config{
		Retention: -1, Local: !config.Sent, Check: l.check, Epoch: config.Epoch,
		Also: placing{l}, Logger: config.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("eventlog: %w", err)
	}
	if dialect == SQLite {
		text, _ := l.statement(Query{After: 1}, pageEntries)
		if l.next, err = db.PrepareContext(ctx, text); err != nil {
			return nil, fmt.Errorf("eventlog: %w", err)
		}
	}
	return l, nil
}

// checkPartitions returns an error if the log was created with another number of
// partitions: entries would be where subscriptions do not look for them.
func (l *Log) checkPartitions(ctx context.Context) error {
	var n int
	if err := l.db.QueryRowContext(ctx, `SELECT partitions FROM eventlog_partitions`).Scan(&n); err != nil {
		return fmt.Errorf("eventlog: number of partitions: %w", err)
	}
	if n != l.config.Partitions {
		return fmt.Errorf("%w: Partitions is %d: the log was created with %d", ErrConfig, l.config.Partitions, n)
	}
	return nil
}

// Outbox returns the outbox whose tables the log has its events in: for relays that
// send them, if the log has Config.Sent, and as a [replay.Source] for receivers. What
// is enqueued with it is appended to the log. Another outbox on the same tables must not
// enqueue: its events would be in no order, and reading their streams fails there with
// [ErrNotInLog].
func (l *Log) Outbox() *outbox.Outbox { return l.box }

// Notify tells the subscriptions and relays of this process that entries were
// committed, so that they look at once. It may be called too often, or not at all.
func (l *Log) Notify() { l.box.Notify() }

// Partition returns the stream that numbers the entries of a partition, log/0 for
// example. The number of an entry on it is its place.
func Partition(n int) lockkeys.Key { return lockkeys.Must(Root, strconv.Itoa(n)) }

// check refuses an event that has no partition, or that Config.Check refuses.
func (l *Log) check(e *ordering.Event) error {
	if _, err := l.partitionOf(e); err != nil {
		return err
	}
	if l.config.Check != nil {
		return l.config.Check(e)
	}
	return nil
}

// partitionOf returns the partition of an event.
func (l *Log) partitionOf(e *ordering.Event) (int, error) {
	in := -1
	for _, p := range e.Positions {
		switch of := l.config.PartitionOf(p.Stream); {
		case of < 0 || of >= l.config.Partitions:
			return 0, fmt.Errorf("%w: event %.80q: Config.PartitionOf gives %d for %s: it must be from 0 to %d",
				ErrPartition, e.Name(), of, p.Stream, l.config.Partitions-1)
		case in >= 0 && of != in:
			return 0, fmt.Errorf("%w: event %.80q: %s is in %d, %s in %d: an event must be in one",
				ErrPartition, e.Name(), e.Positions[0].Stream, in, p.Stream, of)
		default:
			in = of
		}
	}
	return max(in, 0), nil
}

// Head returns the position of the last entry of a partition; Number is 0 if it has
// none. The error wraps [ErrQuery] for a partition that the log does not have, or is that
// of the database.
func (l *Log) Head(ctx context.Context, partition int) (ordering.Position, error) {
	var p settings.Problems
	l.checkPartition(&p, partition)
	if err := p.Err(ErrQuery); err != nil {
		return ordering.Position{}, err
	}
	var last uint64
	err := l.db.QueryRowContext(ctx, `SELECT last FROM eventlog_heads WHERE log = $1`, partition).Scan(&last)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return ordering.Position{}, fmt.Errorf("eventlog: head of partition %d: %w", partition, err)
	}
	return ordering.PositionAt(Partition(partition), last), nil
}

// Version returns the last position of a stream; Number is 0 if it has none. Give it
// to [Log.Append] if the events depend on there being no later one.
func (l *Log) Version(ctx context.Context, stream lockkeys.Key) (ordering.Position, error) {
	var last uint64
	err := l.db.QueryRowContext(ctx, `SELECT last FROM outbox_streams WHERE stream = $1`, stream.String()).Scan(&last)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return ordering.Position{}, fmt.Errorf("eventlog: version of %.80s: %w", stream, err)
	}
	return ordering.PositionAt(stream, last), nil
}

// now is the time of an append, as stored.
func now() int64 { return time.Now().UnixMicro() }
