package outbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Enqueue adds an event to the outbox, in the transaction of the change that it
// describes, and returns it with its numbers, the next one on each of its
// streams. They are final once the transaction is committed.
//
// The event's streams are those of its positions, whose numbers must be 0, and
// the additional ones in streams. A position with End makes the event the last
// one of its stream: later ones are refused with [ErrEnded], in a later epoch too.
// An empty ID is replaced by a random one, a zero Time by the current time. event
// is not changed.
//
// After an error the transaction is as it was before the call and can go on,
// unless the database itself failed: then it has been rolled back. The error
// wraps [ErrNoTx], [ErrNoEvent], [ErrNumbered], [ErrEnded], [ErrDuplicateID],
// [ErrOtherEvent], an [*ordering.EventError], that of [Config.Check], or that of
// the database. If it wraps [ErrConflict], roll the transaction back and run it
// again.
//
// Until the transaction ends, others that enqueue an event on one of the streams
// wait, in Enqueue. If it enqueues several events, first lock all their streams
// with [Outbox.Lock], or it may deadlock with others. Do not use a transaction on
// several goroutines at the same time.
func (o *Outbox) Enqueue(ctx context.Context, tx *sql.Tx, event *ordering.Event, streams ...lockkeys.Key) (*ordering.Event, error) {
	if tx == nil {
		return nil, ErrNoTx
	}
	e, err := o.prepare(event, streams)
	if err != nil {
		return nil, err
	}
	if err := o.config.Check(e); err != nil {
		return nil, fmt.Errorf("outbox: enqueue event %.80q: refused by Config.Check: %w", e.ID, err)
	}
	err = o.atomically(ctx, tx, func(t transaction) error { return o.insert(ctx, t, e) })
	if err != nil {
		return nil, fmt.Errorf("outbox: enqueue event %.80q: %w", e.ID, err)
	}
	return e, nil
}

// unknown stands for a number that is not assigned yet: the longest one, so that
// limits of size that it meets are met by any number.
const unknown = ordering.MaxNumber

// prepare returns a copy of the event, complete except for its numbers.
func (o *Outbox) prepare(event *ordering.Event, streams []lockkeys.Key) (*ordering.Event, error) {
	if event == nil {
		return nil, ErrNoEvent
	}
	e := *event
	e.Positions = slices.Clone(event.Positions)
	for i, p := range e.Positions {
		if p.Number != 0 || p.Epoch != 0 {
			return nil, fmt.Errorf("%w: %s", ErrNumbered, p)
		}
		e.Positions[i].Epoch, e.Positions[i].Number = o.config.Epoch, unknown
	}
	for _, stream := range streams {
		e.Positions = append(e.Positions, ordering.Position{Stream: stream, Epoch: o.config.Epoch, Number: unknown})
	}
	if e.ID == "" {
		e.ID = rand.Text()
	}
	if e.Time.IsZero() {
		e.Time = time.Now().UTC().Truncate(time.Microsecond)
	}
	if err := e.Validate(); err != nil {
		return nil, err
	}
	return &e, nil
}

func (o *Outbox) insert(ctx context.Context, tx transaction, e *ordering.Event) error {
	if err := o.assign(ctx, tx, e); err != nil {
		return err
	}
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	var id int64
	err = tx.QueryRowContext(ctx, insertEvent, e.ID, len(e.Positions), len(body), time.Now().UnixMicro(), string(body)).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return taken(ctx, tx, e)
	}
	if err != nil {
		return err
	}
	args := make([]any, 0, 3*len(e.Positions))
	for _, p := range e.Positions {
		args = append(args, p.Stream.String(), int64(p.Place()), id)
	}
	_, err = tx.ExecContext(ctx, insertPositions(o.dialect, len(e.Positions)), args...)
	return err
}

// taken returns the error for an event whose ID exists already: ErrDuplicateID if
// it is the same event, ErrOtherEvent otherwise.
func taken(ctx context.Context, tx transaction, e *ordering.Event) error {
	var id int64
	var body string
	err := tx.QueryRowContext(ctx, `SELECT id, body FROM outbox_events WHERE name = $1`, e.ID).Scan(&id, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: the event that had the ID is not retained any more", ErrConflict)
	}
	if err != nil {
		return err
	}
	old, err := decode(id, body)
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

const insertEvent = `INSERT INTO outbox_events (name, streams, size, created, body)
	VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO NOTHING RETURNING id`

func insertPositions(d Dialect, n int) string {
	return `INSERT INTO outbox_positions (stream, number, event) VALUES ` + repeat(d, n, "(?, ?, ?)")
}

// assign gives the event the next number on each of its streams. Their rows are
// locked in the order of the keys, as by Lock, so that transactions with one event
// each never wait for each other in a circle.
func (o *Outbox) assign(ctx context.Context, tx transaction, e *ordering.Event) error {
	sorted := slices.Clone(e.Positions)
	slices.SortFunc(sorted, func(a, b ordering.Position) int { return a.Stream.Compare(b.Stream) })
	args := make([]any, 0, 2*len(sorted))
	for _, p := range sorted {
		ended := int64(0)
		if p.End {
			ended = beforeEpoch(o.config.Epoch) + 1
		}
		args = append(args, p.Stream.String(), ended)
	}
	last, err := lasts(ctx, tx, nextNumbers(o.dialect, len(sorted), o.config.Epoch), args...)
	if err != nil {
		return err
	}
	for i, p := range e.Positions {
		place, ok := last[p.Stream.String()]
		if !ok {
			return refused(ctx, tx, p.Stream)
		}
		at := ordering.PositionAt(p.Stream, place)
		e.Positions[i].Epoch, e.Positions[i].Number = at.Epoch, at.Number
	}
	return nil
}

// beforeEpoch is the place before the first number of an epoch.
func beforeEpoch(epoch uint16) int64 { return int64(ordering.Position{Epoch: epoch}.Place()) }

// nextNumbers gives each of n streams the first number of the epoch, or the one
// after its last, whichever is later, unless that would be one of an epoch that has
// not begun.
func nextNumbers(d Dialect, n int, epoch uint16) string {
	before := beforeEpoch(epoch)
	next := fmt.Sprintf(`CASE WHEN s.last < %[1]d THEN %[1]d ELSE s.last END + 1`, before)
	return `INSERT INTO outbox_streams AS s (stream, last, ended) VALUES ` + repeat(d, n, fmt.Sprintf("(?, %d, ?)", before+1)) + `
		ON CONFLICT (stream) DO UPDATE SET last = ` + next + `,
			ended = CASE excluded.ended WHEN 0 THEN 0 ELSE ` + next + ` END
		` + fmt.Sprintf(`WHERE s.ended = 0 AND (s.last <= %d OR s.last %% %d <> 0)`, before, int64(ordering.MaxNumber)) + `
		RETURNING stream, last`
}

// refused returns the error for a stream that gave no number.
func refused(ctx context.Context, tx transaction, stream lockkeys.Key) error {
	last, ended, err := lastOf(ctx, tx, stream)
	switch {
	case err != nil:
		return err
	case ended:
		return fmt.Errorf("%w: its last event is %s", ErrEnded, ordering.PositionAt(stream, last))
	}
	return fmt.Errorf("%w: %s has no numbers left: raise Config.Epoch", ordering.ErrNumber, stream)
}

// lasts returns a place for each stream that the statement returns.
func lasts(ctx context.Context, tx transaction, statement string, args ...any) (map[string]uint64, error) {
	found, err := tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	last := map[string]uint64{}
	for found.Next() {
		var stream string
		var place uint64
		if err := found.Scan(&stream, &place); err != nil {
			return nil, err
		}
		last[stream] = place
	}
	return last, found.Err()
}
