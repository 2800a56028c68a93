package outbox

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// addByWriter is check and add on SQLite, for events that one statement can insert,
// without a savepoint. That would take time, and have all transactions that share one of
// a store's set savepoints as well.
//
// What a transaction of SQLite reads, nobody else changes before its end, or else it
// cannot write. So all that may be refused is found out before the first write, and that
// is the statement which is refused as a whole for an ID that is taken. If something
// fails after it, the transaction is rolled back.
func (o *Outbox) addByWriter(ctx context.Context, tx *sql.Tx, events []*ordering.Event, expected []ordering.Position) ([]Enqueued, error) {
	t := o.prepared(ctx, tx)
	needs, err := o.ready(ctx, t, events, expected)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	number(events, needs)
	added, err := o.insertEvents(ctx, t, events)
	if err != nil {
		return nil, err
	}
	err = advance(ctx, t, needs)
	if err == nil {
		err = o.insertPositions(ctx, t, added)
	}
	if err == nil && o.config.Also != nil {
		err = o.config.Also.Added(ctx, t, added)
	}
	if err != nil {
		_ = tx.Rollback()
		return nil, err
	}
	return added, nil
}

// ready finds the next numbers of the events' streams, or returns an error if there are
// none, or if one of the expected streams is elsewhere.
func (o *Outbox) ready(ctx context.Context, tx transaction, events []*ordering.Event, expected []ordering.Position) ([]*need, error) {
	streams := map[lockkeys.Key]struct{}{}
	for _, p := range expected {
		streams[p.Stream] = struct{}{}
	}
	for _, e := range events {
		for _, p := range e.Positions {
			streams[p.Stream] = struct{}{}
		}
	}
	at := make(map[string]lastNumber, len(streams))
	for some := range slices.Chunk(slices.SortedFunc(maps.Keys(streams), lockkeys.Key.Compare), ordering.MaxPositions) {
		if err := readLast(ctx, tx, some, at); err != nil {
			return nil, err
		}
	}
	for _, p := range expected {
		if actual := ordering.PositionAt(p.Stream, at[p.Stream.String()].place); actual.Epoch != p.Epoch || actual.Number != p.Number {
			return nil, &VersionError{Expected: p, Actual: actual}
		}
	}
	needs, err := needsOf(events)
	if err != nil {
		return nil, err
	}
	before := uint64(beforeEpoch(o.config.Epoch))
	for _, n := range needs {
		last := at[n.stream.String()]
		if err := last.refuses(n, before); err != nil {
			return nil, err
		}
		n.next = max(last.place, before) + 1
	}
	return needs, nil
}

// lastNumber is the last number of a stream.
type lastNumber struct {
	place uint64
	ended bool
}

// readLast adds the last numbers of streams that have one.
func readLast(ctx context.Context, tx transaction, streams []lockkeys.Key, to map[string]lastNumber) error {
	args := make([]any, len(streams))
	for i, stream := range streams {
		args[i] = stream.String()
	}
	found, err := tx.QueryContext(ctx, lastNumbers(len(streams)), args...)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var stream string
		var last lastNumber
		if err := found.Scan(&stream, &last.place, &last.ended); err != nil {
			return err
		}
		to[stream] = last
	}
	return found.Err()
}

func lastNumbers(n int) string {
	return `SELECT stream, last, ended > 0 FROM outbox_streams WHERE stream IN (` + sqldb.Repeat(SQLite, n, "?") + `)`
}

// advance writes the last numbers of streams.
func advance(ctx context.Context, tx transaction, needs []*need) error {
	for some := range slices.Chunk(needs, ordering.MaxPositions) {
		args := make([]any, 0, 3*len(some))
		for _, n := range some {
			last, ended := int64(n.next)+n.count-1, int64(0)
			if n.ends {
				ended = last
			}
			args = append(args, n.stream.String(), last, ended)
		}
		if _, err := tx.ExecContext(ctx, putLast(len(some)), args...); err != nil {
			return err
		}
	}
	return nil
}

func putLast(n int) string {
	return `INSERT INTO outbox_streams (stream, last, ended) VALUES ` + sqldb.Repeat(SQLite, n, "(?, ?, ?)") + `
		ON CONFLICT (stream) DO UPDATE SET last = excluded.last, ended = excluded.ended`
}
