package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Parked is an event that no relay sends any more until an operator decides.
// It is the next one on each of its streams, and what is behind it waits.
type Parked struct {
	Event     string              // its ID
	Positions []ordering.Position // its numbers, in order of the streams; without End
	Error     string              // why it is parked, cut after 4 KiB
	Attempts  int                 // that failed in a row; 0 if it cannot be read
	Since     time.Time
}

// Parked lists the events that are parked, longest first.
func (o *Outbox) Parked(ctx context.Context) ([]Parked, error) {
	list, err := o.parked(ctx)
	if err != nil {
		return nil, fmt.Errorf("outbox: list parked events: %w", err)
	}
	return list, nil
}

func (o *Outbox) parked(ctx context.Context) ([]Parked, error) {
	found, err := o.db.QueryContext(ctx, `SELECT e.name, k.attempts, k.since, k.error, p.stream, p.number
		FROM outbox_parked k
		JOIN outbox_events e ON e.id = k.event AND e.sent IS NULL
		JOIN outbox_positions p ON p.event = k.event
		ORDER BY k.since, k.event, p.stream`)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var list []Parked
	for found.Next() {
		var p Parked
		var since int64
		var stream string
		var at ordering.Position
		if err := found.Scan(&p.Event, &p.Attempts, &since, &p.Error, &stream, &at.Number); err != nil {
			return nil, err
		}
		if at.Stream, err = lockkeys.Parse(stream); err != nil {
			return nil, err
		}
		if n := len(list); n == 0 || list[n-1].Event != p.Event {
			p.Since = time.UnixMicro(since)
			list = append(list, p)
		}
		last := &list[len(list)-1]
		last.Positions = append(last.Positions, at)
	}
	return list, found.Err()
}

// Resume lets a parked event, named by its ID, be tried again, as many times as
// a new one. The relay need not be in this process. The error wraps
// [ErrNotParked] or what the database said.
func (o *Outbox) Resume(ctx context.Context, event string) error {
	return o.operate(ctx, "resume", event, func(*sql.Tx, int64, string) error { return nil })
}

// Skip gives up a parked event, named by its ID: it is not sent, and what is
// behind it on its streams goes on in order. Its numbers stay used, and
// [Outbox.Fetch] answers from now on that they never existed, so that receivers
// go on too. What says so, with the error that the event was parked for, is in
// the table outbox_skipped and kept for ever; the event itself is kept for
// [Config.Retention]. It cannot be taken back.
//
// A receiver may have the event all the same: from an attempt that it did not
// confirm, or because it asked for it before. The relay need not be in this
// process. The error wraps [ErrNotParked] or what the database said. If what the
// database answered was lost, the event may be skipped all the same: Skip it
// again, and ErrNotParked says that it is.
func (o *Outbox) Skip(ctx context.Context, event string) error {
	now := time.Now().UnixMicro()
	return o.operate(ctx, "skip", event, func(tx *sql.Tx, id int64, reason string) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO outbox_skipped (stream, number, event, at, error)
			SELECT p.stream, p.number, e.name, $2, $3 FROM outbox_positions p JOIN outbox_events e ON e.id = p.event
			WHERE p.event = $1`, id, now, reason); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE outbox_positions SET sent = TRUE WHERE event = $1`, id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE outbox_events SET sent = $2 WHERE id = $1`, id, now)
		return err
	})
}

// operate ends the parking of an event, together with what do does with its row
// and the error that it was parked for.
func (o *Outbox) operate(ctx context.Context, name, event string, do func(tx *sql.Tx, id int64, reason string) error) error {
	err := o.unpark(ctx, event, do)
	if err != nil {
		return fmt.Errorf("outbox: %s event %.80q: %w", name, event, err)
	}
	o.Notify()
	return nil
}

func (o *Outbox) unpark(ctx context.Context, event string, do func(tx *sql.Tx, id int64, reason string) error) error {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // says that it is done already after Commit
	var id int64
	var reason string
	err = tx.QueryRowContext(ctx, `DELETE FROM outbox_parked
		WHERE event = (SELECT id FROM outbox_events WHERE name = $1 AND sent IS NULL) RETURNING event, error`, event).Scan(&id, &reason)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotParked
	}
	if err != nil {
		return err
	}
	if err := do(tx, id, reason); err != nil {
		return err
	}
	return tx.Commit()
}

// unfit is an event that a relay gives up to the operators.
type unfit struct {
	id       int64
	name     string // the event's ID
	position string
	attempts int
	err      error
}

// hopeless tells whether an event that failed is to be parked.
func (c RelayConfig) hopeless(attempts int, err error) bool {
	return dispatcher.IsPermanent(err) || c.MaxAttempts > 0 && attempts >= c.MaxAttempts
}

// park parks the events that are unfit. Once ctx has ended it parks none: their
// attempts may have been cut short by that.
func (l *leader) park(ctx context.Context) error {
	if len(l.unfit) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	parked, err := l.storeParked(ctx)
	if err != nil {
		return fmt.Errorf("outbox: park events: %w", err)
	}
	for _, u := range parked {
		l.stats.parked.Add(1)
		l.config.Logger.Error("outbox: event cannot be sent and its streams are parked: resume or skip it",
			"event", u.name, "position", u.position, "attempts", u.attempts, "error", u.err)
	}
	l.unfit = nil
	return nil
}

// storeParked returns those that were not parked or sent by another relay.
func (l *leader) storeParked(ctx context.Context) (parked []unfit, err error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // says that it is done already after Commit
	for _, u := range l.unfit {
		done, err := tx.ExecContext(ctx, `INSERT INTO outbox_parked (event, attempts, since, error)
			SELECT id, $2, $3, $4 FROM outbox_events WHERE id = $1 AND sent IS NULL
			ON CONFLICT (event) DO NOTHING`, u.id, u.attempts, time.Now().UnixMicro(), errorText(u.err))
		if err != nil {
			return nil, err
		}
		n, err := done.RowsAffected()
		if err != nil {
			return nil, err
		}
		if n > 0 {
			parked = append(parked, u)
		}
	}
	return parked, tx.Commit()
}

// errorText is the text of an error as every database can keep it.
func errorText(err error) string {
	const most = 4 << 10
	text := err.Error()
	text = text[:min(len(text), most)]
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
