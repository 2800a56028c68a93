package eventlog

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/interlock-go/interlock/internal/eventbody"
	"github.com/interlock-go/interlock/ordering"
)

// Bounds of what is read at a time. One entry may exceed the second one.
const (
	pageEntries = 256
	pageBytes   = 1 << 20
)

// Read returns the entries of a query one after the other:
//
//	for entry, err := range log.Read(ctx, eventlog.Query{Stream: order}) {
//		if err != nil {
//			return err
//		}
//		…
//	}
//
// It reads pages of at most 256 entries and about 1 MiB, and keeps no connection of
// the database while the loop runs: so it is no one moment of the database, but in a
// partition, and on a stream, whoever sees an entry sees all before it. A loop that
// reads forward ends at the entry that is the last one when it gets there.
//
// An entry that cannot be read comes with an [*EntryError], which wraps [ErrLost] or
// [ErrNotInLog], or is for a body that cannot be decoded or upcast; a loop that goes
// on gets the next one. Any other error ends the loop; it wraps [ErrQuery], or is
// that of the database.
func (l *Log) Read(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	return l.read(ctx, l.db, q)
}

// ReadIn is [Log.Read] in a transaction of the caller's, which also sees what has been
// appended in it. The loop may use the transaction for other statements.
func (l *Log) ReadIn(ctx context.Context, tx *sql.Tx, q Query) iter.Seq2[Entry, error] {
	return l.read(ctx, tx, q)
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (l *Log) read(ctx context.Context, db querier, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := l.checkQuery(q); err != nil {
			yield(Entry{}, err)
			return
		}
		for left := q.Limit; ; {
			n := pageEntries
			if q.Limit > 0 {
				n = min(n, left)
			}
			rows, more, err := l.page(ctx, db, q, n)
			if err != nil {
				yield(Entry{}, fmt.Errorf("eventlog: read: %w", err))
				return
			}
			for _, r := range rows {
				if entry, err := l.entry(r); !yield(entry, err) {
					return
				}
			}
			left -= len(rows)
			if !more || q.Limit > 0 && left == 0 {
				return
			}
			if last := rows[len(rows)-1].number; q.Backwards {
				q.Before = last
			} else {
				q.After = last
			}
		}
	}
}

// row is an entry as it is stored.
type row struct {
	at     ordering.Position // Number is 0 for an event that is in no partition
	number uint64            // its version or place, by which the rows are sorted
	time   time.Time
	kind   string // its type
	name   string
	body   []byte
	lost   bool // there is no event
}

// page returns the first n rows of a query, or fewer if they have many bytes. more
// reports whether there may be more rows.
func (l *Log) page(ctx context.Context, db querier, q Query, n int) (rows []row, more bool, err error) {
	text, args := l.statement(q, n)
	found, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, false, err
	}
	return rowsOf(found, n)
}

// pageAfter is the page of a partition behind a place.
func (l *Log) pageAfter(ctx context.Context, partition int, after uint64) (rows []row, err error) {
	if l.next == nil || after == 0 {
		rows, _, err = l.page(ctx, l.db, Query{Partition: partition, After: after}, pageEntries)
		return rows, err
	}
	found, err := l.next.QueryContext(ctx, partition, int64(after), pageEntries)
	if err != nil {
		return nil, err
	}
	rows, _, err = rowsOf(found, pageEntries)
	return rows, err
}

// rowsOf returns the rows of a page of n.
func rowsOf(found *sql.Rows, n int) (rows []row, more bool, err error) {
	defer found.Close()
	bytes := 0
	for found.Next() {
		if bytes > pageBytes {
			return rows, true, nil
		}
		var r row
		var log, place sql.NullInt64
		var at int64
		var name sql.NullString
		if err := found.Scan(&log, &place, &r.number, &at, &r.kind, &name, &r.body); err != nil {
			return nil, false, err
		}
		if log.Valid {
			r.at = ordering.PositionAt(Partition(int(log.Int64)), uint64(place.Int64))
		}
		r.time, r.name, r.lost = time.UnixMicro(at).UTC(), name.String, !name.Valid
		bytes += len(r.body)
		rows = append(rows, r)
	}
	return rows, len(rows) == n, found.Err()
}

// entry decodes a row.
func (l *Log) entry(r row) (Entry, error) {
	entry := Entry{At: r.at, Time: r.time}
	var err error
	switch {
	case r.lost:
		err = ErrLost
	case r.at.Number == 0:
		err = ErrNotInLog
	default:
		entry.Event, err = l.decode(r.name, r.kind, r.body)
	}
	if err != nil {
		return entry, &EntryError{At: r.at, Event: r.name, Reason: err}
	}
	return entry, nil
}

// decode returns the event with an ID, a type and a body, in its newest form.
func (l *Log) decode(id, kind string, body []byte) (*ordering.Event, error) {
	e, err := eventbody.Decode(id, kind, body)
	if err != nil {
		return nil, err
	}
	if err := l.upcasters.apply(e); err != nil {
		return nil, err
	}
	return e, nil
}
