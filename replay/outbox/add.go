package outbox

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// enqueue adds events that are complete but for their numbers, if the expected streams
// are where they are expected.
//
// It needs no savepoint, which would take time, and on SQLite have all transactions that
// share one of a store's set savepoints as well. All that may be refused is found out
// before anything is written, but for IDs that are taken; then the events that were
// inserted are deleted. Nobody else changes meanwhile what it has read: on PostgreSQL the
// streams are locked, and on SQLite a transaction whose reads are out of date cannot
// write. If something else fails, the transaction is rolled back.
func (o *Outbox) enqueue(ctx context.Context, tx *sql.Tx, events []*ordering.Event, expected []ordering.Position) ([]Enqueued, error) {
	t := o.prepared(ctx, tx)
	at, err := o.lastOfAll(ctx, t, events, expected)
	if err != nil {
		if o.dialect == PostgreSQL { // which ends a transaction with the first error
			_ = tx.Rollback()
		}
		return nil, conflicting(err)
	}
	needs, err := o.next(at, events, expected)
	if errors.Is(err, ErrEnded) { // perhaps by these events, which come again
		err = oneTaken(ctx, t, events, err)
	}
	if err != nil || len(events) == 0 {
		return nil, err
	}
	number(events, needs)
	added := make([]Enqueued, 0, len(events))
	for some := range slices.Chunk(events, maxInsert) {
		if added, err = o.insertEvents(ctx, t, some, added); err != nil {
			o.takeBack(ctx, t, added, err)
			return nil, conflicting(err)
		}
	}
	err = o.advance(ctx, t, needs)
	if err == nil {
		err = o.insertPositions(ctx, t, added)
	}
	if err == nil && o.config.Also != nil {
		err = o.config.Also.Added(ctx, t, added)
	}
	if err != nil {
		_ = tx.Rollback()
		return nil, conflicting(err)
	}
	return added, nil
}

// takeBack deletes events that were inserted before an error, or rolls the transaction
// back.
func (o *Outbox) takeBack(ctx context.Context, tx transaction, added []Enqueued, because error) {
	isTaken := errors.Is(because, ErrDuplicateID) || errors.Is(because, ErrOtherEvent)
	switch {
	case o.dialect == SQLite && len(added) == 0: // it has changed nothing, and can go on
	case !isTaken || deleteEvents(ctx, tx, o.dialect, added) != nil:
		_ = tx.Rollback()
	}
}

// lastOfAll returns the last numbers of the streams of the events, and of the expected
// ones. On PostgreSQL it locks them, in the order of the keys.
func (o *Outbox) lastOfAll(ctx context.Context, tx transaction, events []*ordering.Event, expected []ordering.Position) (map[string]lastNumber, error) {
	streams := make([]lockkeys.Key, 0, len(events)+len(expected))
	for _, p := range expected {
		streams = append(streams, p.Stream)
	}
	for _, e := range events {
		for _, p := range e.Positions {
			streams = append(streams, p.Stream)
		}
	}
	if o.dialect == PostgreSQL {
		return o.lock(ctx, tx, streams)
	}
	return eachLast(ctx, tx, streams, lastNumbers, o.dialect)
}

// next returns the next numbers of the events' streams, or an error if there are none, or
// if one of the expected streams is elsewhere.
func (o *Outbox) next(at map[string]lastNumber, events []*ordering.Event, expected []ordering.Position) ([]*need, error) {
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

// advance writes the last numbers of streams.
func (o *Outbox) advance(ctx context.Context, tx transaction, needs []*need) error {
	for some := range slices.Chunk(needs, ordering.MaxPositions) {
		args := make([]any, 0, 3*len(some))
		for _, n := range some {
			last, ended := int64(n.next)+n.count-1, int64(0)
			if n.ends {
				ended = last
			}
			args = append(args, n.stream.String(), last, ended)
		}
		if _, err := tx.ExecContext(ctx, putLast(o.dialect, len(some)), args...); err != nil {
			return err
		}
	}
	return nil
}
