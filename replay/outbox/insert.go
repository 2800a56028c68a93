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

// add numbers the events, inserts them, and does what Config.Also does.
func (o *Outbox) add(ctx context.Context, tx transaction, events []*ordering.Event) ([]Enqueued, error) {
	if err := o.assign(ctx, tx, events); err != nil {
		return nil, err
	}
	added := make([]Enqueued, 0, len(events))
	for some := range slices.Chunk(events, maxInsert) {
		more, err := o.insertEvents(ctx, tx, some)
		if err == nil {
			err = o.insertPositions(ctx, tx, more)
		}
		if err != nil {
			return nil, err
		}
		added = append(added, more...)
	}
	if o.config.Also != nil && len(added) > 0 {
		if err := o.config.Also.Added(ctx, tx, added); err != nil {
			return nil, err
		}
	}
	return added, nil
}

// insertEvents inserts events, or returns an error for an ID that is taken.
func (o *Outbox) insertEvents(ctx context.Context, tx transaction, events []*ordering.Event) ([]Enqueued, error) {
	created := time.Now().UnixMicro()
	sent, kept := sql.NullInt64{Int64: created, Valid: o.config.Local}, o.config.Retention < 0
	if o.config.Local && kept {
		created, sent.Int64 = 0, 0 // no relay and no retention asks when
	}
	args := make([]any, 0, 7*len(events))
	for _, e := range events {
		body, err := eventbody.Encode(e)
		if err != nil {
			return nil, err
		}
		args = append(args, e.ID, len(e.Positions), len(body), created, sent, kept, body)
	}
	byName, err := lasts(ctx, tx, insertEvents(o.dialect, len(events)), args...)
	if sqldb.IsConstraint(err) {
		return nil, oneTaken(ctx, tx, events, err)
	}
	if err != nil {
		return nil, err
	}
	added := make([]Enqueued, len(events))
	for i, e := range events {
		row, inserted := byName[e.ID]
		if !inserted {
			return nil, taken(ctx, tx, e)
		}
		added[i] = Enqueued{e, int64(row)}
	}
	return added, nil
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
	return `INSERT INTO outbox_events (name, streams, size, created, sent, kept, body) VALUES ` +
		sqldb.Repeat(d, n, "(?, ?, ?, ?, ?, ?, ?)") + taken + ` RETURNING name, id`
}

func insertPositions(d Dialect, n int) string {
	return `INSERT INTO outbox_positions (stream, number, event, sent) VALUES ` + sqldb.Repeat(d, n, "(?, ?, ?, ?)")
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
	var body []byte
	err := tx.QueryRowContext(ctx, `SELECT id, body FROM outbox_events WHERE name = $1`, e.ID).Scan(&id, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: the event that had the ID is not retained any more", ErrConflict)
	}
	if err != nil {
		return err
	}
	old, err := decode(id, e.ID, body)
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
