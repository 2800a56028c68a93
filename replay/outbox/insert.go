package outbox

import (
	"bytes"
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
)

// maxInsert bounds the rows of one statement, within the databases' bounds for
// arguments.
const maxInsert = 256

// insertEvents inserts events and adds them to those that were added; the error may be for
// an ID that is taken.
func (o *Outbox) insertEvents(ctx context.Context, tx transaction, events []*ordering.Event, added []Enqueued) ([]Enqueued, error) {
	created := time.Now().UnixMicro()
	sent, kept := sql.NullInt64{Int64: created, Valid: o.config.Local}, o.config.Retention < 0
	if o.config.Local && kept {
		created, sent.Int64 = 0, 0 // no relay and no retention asks when
	}
	args := make([]any, 0, 8*len(events))
	numbers := o.config.Also != nil // see numberTypes
	for _, e := range events {
		stored, kind := *e, sql.NullString{String: e.Type, Valid: numbers}
		if numbers {
			stored.Type = ""
		}
		body, err := eventbody.Encode(&stored)
		if err != nil {
			return added, err
		}
		args = append(args, e.ID, len(e.Positions), len(body), created, sent, kept, body, kind)
	}
	inserted, err := insert(ctx, tx, insertEvents(o.dialect, len(events)), args...)
	if sqldb.IsConstraint(err) {
		return added, oneTaken(ctx, tx, events, err)
	}
	if err != nil {
		return added, err
	}
	var missing *ordering.Event
	for _, e := range events {
		if a, is := inserted[e.ID]; is {
			a.Event = e
			added = append(added, a)
		} else if missing == nil {
			missing = e
		}
	}
	if missing != nil {
		return added, taken(ctx, tx, missing)
	}
	if numbers {
		err = numberTypes(ctx, tx, added[len(added)-len(events):])
	}
	return added, err
}

// insert returns what a statement of insertEvents has inserted, by the events' IDs. Type is
// 0 if no event has had this type before.
func insert(ctx context.Context, tx transaction, statement string, args ...any) (map[string]Enqueued, error) {
	found, err := tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	inserted := map[string]Enqueued{}
	for found.Next() {
		var name string
		var a Enqueued
		if err := found.Scan(&name, &a.Row, &a.Type); err != nil {
			return nil, err
		}
		inserted[name] = a
	}
	return inserted, found.Err()
}

// numberTypes gives numbers to the types of events that no event has had before, in one
// order, so that transactions that do so do not deadlock. Whoever adds the same type at the
// same time waits for the end of the other's transaction: that is nothing new for an event
// log, in which those of a partition do so, but would be for the streams of an outbox alone.
// There events have their types in their bodies.
func numberTypes(ctx context.Context, tx transaction, added []Enqueued) error {
	fresh := map[string][]int{} // the indexes of the events of a type
	for i, a := range added {
		if a.Type == 0 {
			fresh[a.Event.Type] = append(fresh[a.Event.Type], i)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(fresh)) {
		var number int64
		if err := tx.QueryRowContext(ctx, `INSERT INTO outbox_types (name) VALUES ($1)
			ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id`, kind).Scan(&number); err != nil {
			return err
		}
		for _, i := range fresh[kind] {
			added[i].Type = number
			if _, err := tx.ExecContext(ctx, `UPDATE outbox_events SET type = $1 WHERE id = $2`, number, added[i].Row); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteEvents deletes events that were just inserted.
func deleteEvents(ctx context.Context, tx transaction, d Dialect, added []Enqueued) error {
	for some := range slices.Chunk(added, maxInsert) {
		args := make([]any, len(some))
		for i, a := range some {
			args[i] = a.Row
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM outbox_events WHERE id IN (`+sqldb.Repeat(d, len(args), "?")+`)`, args...); err != nil {
			return err
		}
	}
	return nil
}

func (o *Outbox) insertPositions(ctx context.Context, tx transaction, added []Enqueued) error {
	const each = 4
	args := make([]any, 0, each*len(added))
	for _, a := range added {
		for _, p := range a.Event.Positions {
			args = append(args, p.Stream.String(), int64(p.Place()), a.Row, o.config.Local)
		}
	}
	for some := range slices.Chunk(args, each*maxInsert) {
		if _, err := tx.ExecContext(ctx, insertPositions(o.dialect, len(some)/each), some...); err != nil {
			return err
		}
	}
	return nil
}

// insertEvents inserts events. Their rows are in their order. If some of the names are
// taken, SQLite inserts none and returns an error, after which the transaction can go on;
// on PostgreSQL it could not, so the others are inserted.
func insertEvents(d Dialect, n int) string {
	taken := ""
	if d == PostgreSQL {
		taken = ` ON CONFLICT (name) DO NOTHING`
	}
	return `INSERT INTO outbox_events (name, streams, size, created, sent, kept, body, type) VALUES ` +
		sqldb.Repeat(d, n, "(?, ?, ?, ?, ?, ?, ?, (SELECT id FROM outbox_types WHERE name = ?))") + taken + ` RETURNING name, id, coalesce(type, 0)`
}

func insertPositions(d Dialect, n int) string {
	return `INSERT INTO outbox_positions (stream, number, event, sent) VALUES ` +
		sqldb.Repeat(d, n, "((SELECT id FROM outbox_streams WHERE stream = ?), ?, ?, ?)")
}

// oneTaken returns the error for the first of the events whose ID exists already, or the
// cause if there is none.
func oneTaken(ctx context.Context, tx transaction, events []*ordering.Event, cause error) error {
	for _, e := range events {
		if err := taken(ctx, tx, e); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return cause
}

// taken returns the error for an event whose ID exists already: ErrDuplicateID if
// it is the same event, ErrOtherEvent otherwise.
func taken(ctx context.Context, tx transaction, e *ordering.Event) error {
	var id int64
	var kind string
	var body []byte
	err := tx.QueryRowContext(ctx, `SELECT id, `+typeOf+`, body FROM outbox_events e WHERE name = $1`, e.ID).Scan(&id, &kind, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: the event that had the ID is not retained any more", ErrConflict)
	}
	if err != nil {
		return err
	}
	old, err := decode(id, e.ID, kind, body)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOtherEvent, err)
	}
	if what := difference(old, e); what != "" {
		return fmt.Errorf("%w: that on %s: its %s", ErrOtherEvent, positionText(old), what)
	}
	return fmt.Errorf("%w: on %s", ErrDuplicateID, positionText(old))
}

// difference names the first difference between two events, apart from their
// numbers, in what identifies them; see [ordering.Event.Hash].
func difference(old, e *ordering.Event) string {
	streams := func(e *ordering.Event) map[ordering.Position]bool {
		set := map[ordering.Position]bool{}
		for _, p := range e.Positions {
			p.Epoch, p.Number = 0, 0
			set[p] = true
		}
		return set
	}
	switch {
	case !maps.Equal(streams(old), streams(e)):
		return "streams are others"
	case old.Type != e.Type:
		return "type is another"
	case !bytes.Equal(old.Payload, e.Payload):
		return "payload is another"
	}
	return ""
}
