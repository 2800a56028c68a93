package eventlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/interlock-go/interlock/internal/eventbody"
	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/outbox"
)

// Entry is an event in a log.
type Entry struct {
	// At is its position on the stream of its partition: the number is its place.
	// Places are in the order of the commits, without holes.
	At ordering.Position
	// Event is the event, with its versions as the numbers of its positions. When it
	// is read, upcasters have been applied.
	Event *ordering.Event
	// Time is when it was appended. It does not fall from entry to entry of a
	// partition.
	Time time.Time
}

// Appended is the result of [Log.Append].
type Appended struct {
	// Entries has the entries, in the order of the events. Places and versions are
	// final once the transaction is committed.
	Entries []Entry
	// Repeated says that the events were there already, with the same IDs and the
	// same contents, so that nothing was appended.
	Repeated bool
}

// Append appends events to their streams in the caller's transaction, all or none,
// and gives each the next version on each of its streams and the next place in its
// partition. As in [outbox.Outbox.Enqueue], the numbers of an event's positions must
// be 0, an empty ID is replaced by a random one, and a position with End is the last
// one of its stream.
//
// The expected positions are what the caller's decision is based on: the last
// position of each stream that it has read, or Number 0 for a stream without events;
// see [Log.Version]. If one of them has moved on, nothing is appended, and the error
// is a [*VersionError], which wraps [ErrVersion]. That is so until the commit, also for
// streams that are only read: of two transactions that expect the same, and each append to
// one of the streams that they expect, one at most is committed.
//
// An append that is repeated with the same IDs and contents appends nothing and
// returns the entries that are there, with Repeated, whatever is expected. If some of
// them are there and others are not, the error wraps [ErrPartly]; for an ID of
// another event it wraps [outbox.ErrOtherEvent].
//
// From here until the transaction ends, other appends to the partition wait: so
// append last, just before the commit, and once in a transaction. Several calls in
// one transaction may deadlock with those of others, which PostgreSQL detects: the
// error wraps [ErrConflict].
//
// After an error the transaction is as it was before, unless the database itself has
// failed, or ctx has ended, while it was written: then it has been rolled back.
func (l *Log) Append(ctx context.Context, tx *sql.Tx, events []*ordering.Event, expected ...ordering.Position) (Appended, error) {
	entries := []Entry{}
	_, err := l.box.EnqueueAll(context.WithValue(ctx, entriesKey{}, &entries), tx, events, expected...)
	switch {
	case err == nil:
		return Appended{Entries: entries}, nil
	case errors.Is(err, outbox.ErrDuplicateID) || errors.Is(err, outbox.ErrOtherEvent) || errors.Is(err, ErrVersion):
		return l.repeated(ctx, tx, events, err)
	}
	return Appended{}, fmt.Errorf("eventlog: append: %w", err)
}

// entriesKey is the key of a context for where the entries of an append go.
type entriesKey struct{}

// placing gives the events that are added to the outbox their places; see
// [outbox.Also].
type placing struct{ *Log }

// Statements implements [outbox.Also].
func (placing) Statements() []string { return []string{advance, insertEntries(1), insertEntries(2)} }

// maxPlaced bounds the entries of one statement.
const maxPlaced = 256

// Added implements [outbox.Also]: partition by partition, so that the heads are always
// locked in one order.
func (l placing) Added(ctx context.Context, tx outbox.Tx, added []outbox.Enqueued) error {
	entries := make([]Entry, len(added))
	in := map[int][]int{} // the indexes of a partition's events
	for i, a := range added {
		partition, err := l.partitionOf(a.Event)
		if err != nil {
			return err
		}
		in[partition] = append(in[partition], i)
	}
	for _, partition := range slices.Sorted(maps.Keys(in)) {
		for some := range slices.Chunk(in[partition], maxPlaced) {
			if err := l.placeSome(ctx, tx, partition, added, some, entries); err != nil {
				return err
			}
		}
	}
	if to, asked := ctx.Value(entriesKey{}).(*[]Entry); asked {
		*to = entries
	}
	return nil
}

func (l placing) placeSome(ctx context.Context, tx outbox.Tx, partition int, added []outbox.Enqueued, indexes []int, entries []Entry) error {
	n := len(indexes)
	before := ordering.Position{Epoch: l.config.Epoch}.Place()
	var last uint64
	var at int64
	head := []any{partition, int64(before), n, now()}
	rows := make([]any, 0, 4*n)
	for i, index := range indexes {
		e := added[index]
		rows = append(rows, i+1-n, e.Row, e.Type, e.Event.CorrelationID)
	}
	if l.dialect == PostgreSQL { // in one round trip
		if err := tx.QueryRowContext(ctx, placeAll(n), append(head, rows...)...).Scan(&last, &at); err != nil {
			return err
		}
	} else {
		if err := tx.QueryRowContext(ctx, advance, head...).Scan(&last, &at); err != nil {
			return err
		}
		args := make([]any, 0, 6*n)
		for row := range slices.Chunk(rows, 4) {
			args = append(args, partition, int64(last)+int64(row[0].(int)), row[1], at, row[2], row[3])
		}
		if _, err := tx.ExecContext(ctx, insertEntries(n), args...); err != nil {
			return err
		}
	}
	for i, index := range indexes {
		entries[index] = Entry{
			At:    ordering.PositionAt(Partition(partition), last-uint64(n-1-i)),
			Event: added[index].Event, Time: time.UnixMicro(at).UTC(),
		}
	}
	return nil
}

// advance moves the head of a partition by a number of places, in the epoch behind a
// place, and its time.
const advance = `INSERT INTO eventlog_heads AS h (log, last, at) VALUES ($1, $2 + $3, $4)
	ON CONFLICT (log) DO UPDATE SET
		last = CASE WHEN h.last < $2 THEN $2 ELSE h.last END + $3,
		at = CASE WHEN h.at < excluded.at THEN excluded.at ELSE h.at END
	RETURNING last, at`

func insertEntries(n int) string {
	return `INSERT INTO eventlog_entries (log, place, event, at, type, correlation) VALUES ` + sqldb.Repeat(SQLite, n, "(?, ?, ?, ?, ?, ?)")
}

// placeAll is advance and insertEntries in one statement of PostgreSQL.
func placeAll(n int) string {
	text := `WITH head AS (
		INSERT INTO eventlog_heads AS h (log, last, at) VALUES ($1, $2::bigint + $3::bigint, $4)
		ON CONFLICT (log) DO UPDATE SET last = greatest(h.last, $2) + $3, at = greatest(h.at, excluded.at)
		RETURNING last, at
	), entries AS (
		INSERT INTO eventlog_entries (log, place, event, at, type, correlation)
		SELECT $1, head.last + e.back, e.event, head.at, e.type, e.correlation
		FROM head, (VALUES `
	for i := range n {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("($%d::bigint, $%d::bigint, $%d::bigint, $%d::text)", 4*i+5, 4*i+6, 4*i+7, 4*i+8)
	}
	return text + `) e (back, event, type, correlation)
	) SELECT last, at FROM head`
}

// repeated returns the entries of events that are there already. because is the error
// of appending them.
func (l *Log) repeated(ctx context.Context, tx *sql.Tx, events []*ordering.Event, because error) (Appended, error) {
	entries := make([]Entry, len(events))
	found := 0
	for i, e := range events {
		var log int
		var place uint64
		var at int64
		var kind string
		var body []byte
		err := tx.QueryRowContext(ctx, `SELECT x.log, x.place, x.at, t.name, e.body FROM outbox_events e
			JOIN eventlog_entries x ON x.event = e.id JOIN outbox_types t ON t.id = x.type WHERE e.name = $1`, e.ID).Scan(&log, &place, &at, &kind, &body)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		var old *ordering.Event
		if err == nil {
			old, err = eventbody.Decode(e.ID, kind, body)
		}
		if err != nil {
			return Appended{}, fmt.Errorf("eventlog: append: %w", errors.Join(because, err))
		}
		if !isRepeat(old, e) {
			return Appended{}, fmt.Errorf("eventlog: append: event %.80q: %w: that at %s",
				e.ID, outbox.ErrOtherEvent, ordering.PositionAt(Partition(log), place))
		}
		entries[i] = Entry{ordering.PositionAt(Partition(log), place), old, time.UnixMicro(at).UTC()}
		found++
	}
	switch {
	case found == len(events) && found > 0:
		return Appended{Entries: entries, Repeated: true}, nil
	case found > 0:
		return Appended{}, fmt.Errorf("%w: %d of %d: %w", ErrPartly, found, len(events), because)
	}
	return Appended{}, fmt.Errorf("eventlog: append: %w", because)
}

// isRepeat reports whether an event that has no numbers yet is one that is there already.
func isRepeat(old, e *ordering.Event) bool {
	numbered := *e
	numbered.Positions = slices.Clone(e.Positions)
	for i, p := range numbered.Positions {
		at, on := old.On(p.Stream)
		if !on {
			return false
		}
		numbered.Positions[i].Epoch, numbered.Positions[i].Number = at.Epoch, at.Number
	}
	return old.IsCopy(&numbered)
}
