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

// Enqueue adds an event to the outbox, in the transaction of the change that
// it tells of, and returns it with its numbers, the next one on each of its
// streams. They are final once the transaction is committed.
//
// The event's streams are those of its positions, whose numbers must be 0, and
// those given besides. A position with End makes the event the last one of its
// stream: what is enqueued after it is refused with [ErrEnded]. An empty ID is
// replaced by a random one, a zero Time by the present. The event given is not
// changed.
//
// When there is an error the transaction is as it was before the call and can
// go on, unless the database itself failed: then it has been rolled back. The
// error wraps [ErrNoTx], [ErrNoEvent], [ErrNumbered], [ErrEnded],
// [ErrDuplicateID], [ErrOtherEvent], an [*ordering.EventError], that of
// [Config.Check], or what the database said. With [ErrConflict] among them the
// transaction should not go on, but be rolled back and run again.
//
// Until the transaction ends, others that enqueue an event on one of the
// streams wait, in Enqueue. If it enqueues several events, first take the streams
// of them all with [Outbox.Lock], or it may deadlock with others. The same transaction must
// not be used by several goroutines at the same time.
func (o *Outbox) Enqueue(ctx context.Context, tx *sql.Tx, event *ordering.Event, streams ...lockkeys.Key) (*ordering.Event, error) {
	if tx == nil {
		return nil, ErrNoTx
	}
	e, err := prepare(event, streams)
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

// unknown is the number of an event until it gets its own: the longest, so that
// what has room with it has room.
const unknown = ordering.MaxNumber

// prepare returns a copy of the event that lacks nothing but its numbers.
func prepare(event *ordering.Event, streams []lockkeys.Key) (*ordering.Event, error) {
	if event == nil {
		return nil, ErrNoEvent
	}
	e := *event
	e.Positions = slices.Clone(event.Positions)
	for i, p := range e.Positions {
		if p.Number != 0 {
			return nil, fmt.Errorf("%w: %s", ErrNumbered, p)
		}
		e.Positions[i].Number = unknown
	}
	for _, stream := range streams {
		e.Positions = append(e.Positions, ordering.Position{Stream: stream, Number: unknown})
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
		args = append(args, p.Stream.String(), int64(p.Number), id)
	}
	_, err = tx.ExecContext(ctx, insertPositions(o.dialect, len(e.Positions)), args...)
	return err
}

// taken is the error for an event whose ID is there already. Whether it is the
// same event again decides what the caller makes of that, so it is looked at.
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

// difference names what another event has in another way than e, of what tells
// events apart beside their numbers; see [ordering.Event.Hash].
func difference(old, e *ordering.Event) string {
	streams := func(e *ordering.Event) map[ordering.Position]bool {
		set := map[ordering.Position]bool{}
		for _, p := range e.Positions {
			p.Number = 0
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

// assign gives the event the next number of each of its streams. Their rows
// are locked in the order of the keys, as by Lock, so that two transactions with
// one event never wait for each other.
func (o *Outbox) assign(ctx context.Context, tx transaction, e *ordering.Event) error {
	sorted := slices.Clone(e.Positions)
	slices.SortFunc(sorted, func(a, b ordering.Position) int { return a.Stream.Compare(b.Stream) })
	args := make([]any, 0, 2*len(sorted))
	for _, p := range sorted {
		ended := 0
		if p.End {
			ended = 1
		}
		args = append(args, p.Stream.String(), ended)
	}
	last, err := lasts(ctx, tx, nextNumbers(o.dialect, len(sorted)), args...)
	if err != nil {
		return err
	}
	for i, p := range e.Positions {
		number, ok := last[p.Stream.String()]
		if !ok {
			return refused(ctx, tx, p.Stream)
		}
		e.Positions[i].Number = number
	}
	return nil
}

func nextNumbers(d Dialect, n int) string {
	return `INSERT INTO outbox_streams AS s (stream, last, ended) VALUES ` + repeat(d, n, "(?, 1, ?)") + `
		ON CONFLICT (stream) DO UPDATE SET last = s.last + 1,
			ended = CASE excluded.ended WHEN 0 THEN 0 ELSE s.last + 1 END
		WHERE s.ended = 0 AND s.last < 9223372036854775807
		RETURNING stream, last`
}

// refused says why a stream gave no number.
func refused(ctx context.Context, tx transaction, stream lockkeys.Key) error {
	last, ended, err := lastOf(ctx, tx, stream)
	switch {
	case err != nil:
		return err
	case ended:
		return fmt.Errorf("%w: %s: its last event is number %d", ErrEnded, stream, last)
	}
	return fmt.Errorf("%w: %s has no numbers left", ordering.ErrNumber, stream)
}

// lasts returns a number for each stream that the statement returns.
func lasts(ctx context.Context, tx transaction, statement string, args ...any) (map[string]uint64, error) {
	found, err := tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	last := map[string]uint64{}
	for found.Next() {
		var stream string
		var number uint64
		if err := found.Scan(&stream, &number); err != nil {
			return nil, err
		}
		last[stream] = number
	}
	return last, found.Err()
}
