package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Resume makes a relay try a parked event, identified by its ID, again, as many
// times as a new one. The relay need not be in this process. The error wraps
// [ErrNotParked] or the error of the database.
//
// Resume, Skip and Drop name an event, so they never decide about another one. If it was
// parked again meanwhile, with another error, they decide about that; and Drop gives up what
// is behind it by then.
func (o *Outbox) Resume(ctx context.Context, event string) error {
	return o.operate(ctx, "resumed", event, func(*sql.Tx, int64, string) (int64, error) { return 0, nil })
}

// Skip gives up a parked event, identified by its ID: it is not sent, and later
// events on its streams go on in order. Its numbers stay used, and [Outbox.Fetch]
// answers from now on that they never existed, so that receivers go on too. The
// event itself is kept for [Config.Retention]; a record of it is kept for ever, see
// [Outbox.Decisions], with the operator and the reason in ctx, see
// [dispatcher.WithOperator]. Skip cannot be undone.
//
// A receiver may have the event all the same: from an unconfirmed attempt, or
// because it fetched it before. The relay need not be in this process. The error
// wraps [ErrNotParked] or the error of the database. If the answer of the database
// was lost, the event may be skipped all the same: then a second Skip returns
// ErrNotParked.
func (o *Outbox) Skip(ctx context.Context, event string) error {
	return o.operate(ctx, "skipped", event, func(tx *sql.Tx, id int64, reason string) (int64, error) {
		return o.giveUp(ctx, tx, []any{id}, reason)
	})
}

// Drop is Skip for a parked event and all committed unsent events behind it on its
// streams: they go on with events enqueued from now on. A dropped event is skipped
// on its other streams too; later events on those are sent. The errors are those
// of Skip.
func (o *Outbox) Drop(ctx context.Context, event string) error {
	return o.operate(ctx, "dropped", event, func(tx *sql.Tx, id int64, reason string) (int64, error) {
		// Listed once, without events committed in the meantime.
		behind, err := column(ctx, tx, `SELECT DISTINCT later.event FROM outbox_positions head
			JOIN outbox_positions later ON later.stream = head.stream AND later.number > head.number AND NOT later.sent
			WHERE head.event = $1`, id)
		if err != nil {
			return 0, err
		}
		given, err := o.giveUp(ctx, tx, []any{id}, reason)
		if err != nil {
			return 0, err
		}
		reason = errorText(fmt.Errorf("dropped behind event %.80q: %s", event, reason))
		for some := range slices.Chunk(behind, pruneBatch) {
			n, err := o.giveUp(ctx, tx, some, reason)
			if err != nil {
				return 0, err
			}
			given += n
		}
		return given, nil
	})
}

// giveUp marks events as sent, with a record of each of their numbers, and returns
// the number of records. Two operators may give up the same event.
func (o *Outbox) giveUp(ctx context.Context, tx *sql.Tx, ids []any, reason string) (numbers int64, err error) {
	now := time.Now().UnixMicro()
	who, why := dispatcher.OperatorOf(ctx)
	in := ` IN (` + strings.TrimSuffix(strings.Repeat("?, ", len(ids)), ", ") + `)`
	for i, statement := range []struct {
		text string
		args []any
	}{
		{`INSERT INTO outbox_skipped (stream, number, event, at, error, operator, why)
			SELECT s.stream, p.number, e.name, ?, ?, ?, ? FROM outbox_positions p JOIN outbox_streams s ON s.id = p.stream
			JOIN outbox_events e ON e.id = p.event
			WHERE p.event` + in + ` ON CONFLICT (stream, number) DO NOTHING`, []any{now, reason, text(who), text(why)}},
		{`UPDATE outbox_positions SET sent = TRUE WHERE event` + in, nil},
		{`UPDATE outbox_events SET sent = ? WHERE id` + in, []any{now}},
	} {
		done, err := tx.ExecContext(ctx, sqldb.Repeat(o.dialect, 1, statement.text), append(statement.args, ids...)...)
		if err == nil && i == 0 {
			numbers, err = done.RowsAffected()
		}
		if err != nil {
			return 0, err
		}
	}
	return numbers, nil
}

// operate ends the parking of an event, in one transaction with do, which gets its
// row and the error for which it was parked.
func (o *Outbox) operate(ctx context.Context, did, event string, do func(tx *sql.Tx, id int64, reason string) (int64, error)) error {
	numbers, reason, err := o.unpark(ctx, event, do)
	if err != nil {
		return fmt.Errorf("outbox: event %.80q could not be %s: %w", event, did, err)
	}
	o.Notify()
	who, why := dispatcher.OperatorOf(ctx)
	o.config.Logger.Warn("outbox: parked event "+did+" by an operator",
		"event", event, "numbers", numbers, "operator", who, "why", why, "err", reason)
	return nil
}

func (o *Outbox) unpark(ctx context.Context, event string, do func(tx *sql.Tx, id int64, reason string) (int64, error)) (numbers int64, reason string, err error) {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = tx.Rollback() }() // says that it is done already after Commit
	var id int64
	err = tx.QueryRowContext(ctx, `DELETE FROM outbox_parked
		WHERE event = (SELECT id FROM outbox_events WHERE name = $1 AND sent IS NULL) RETURNING event, error`, event).Scan(&id, &reason)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, "", ErrNotParked
	}
	if err != nil {
		return 0, "", err
	}
	if numbers, err = do(tx, id, reason); err != nil {
		return 0, "", err
	}
	return numbers, reason, tx.Commit()
}

// Decision is the record of a number that an operator gave up, with
// [Outbox.Skip] or [Outbox.Drop].
type Decision struct {
	Event    string // its ID
	Position ordering.Position
	Error    string // why the event was parked, or behind which one it was dropped
	Operator string // see [dispatcher.WithOperator]
	Why      string
	At       time.Time
}

// Decisions lists the numbers that operators gave up before a time, newest first,
// limit at most. It looks through all of them.
func (o *Outbox) Decisions(ctx context.Context, before time.Time, limit int) ([]Decision, error) {
	list, err := o.decisions(ctx, before, limit)
	if err != nil {
		return nil, fmt.Errorf("outbox: list decisions: %w", err)
	}
	return list, nil
}

func (o *Outbox) decisions(ctx context.Context, before time.Time, limit int) (list []Decision, err error) {
	found, err := o.db.QueryContext(ctx, `SELECT event, stream, number, error, operator, why, at FROM outbox_skipped
		WHERE at < $1 ORDER BY at DESC, stream, number LIMIT $2`, before.UnixMicro(), limit)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var d Decision
		var stream string
		var place uint64
		var at int64
		if err := found.Scan(&d.Event, &stream, &place, &d.Error, &d.Operator, &d.Why, &at); err != nil {
			return nil, err
		}
		key, err := lockkeys.Parse(stream)
		if err != nil {
			return nil, err
		}
		d.Position, d.At = ordering.PositionAt(key, place), time.UnixMicro(at)
		list = append(list, d)
	}
	return list, found.Err()
}
