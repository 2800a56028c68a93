package sqlstore

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/ordering"
)

// Mark implements [ordering.Term].
func (t *term) Mark(ctx context.Context, e *ordering.Event, most int) (run int, err error) {
	if e == nil {
		return 0, ordering.ErrNilEvent
	}
	key, command := ordering.MarkOf(e.Positions, e.ID), 0
	if len(e.Positions) == 0 {
		command = 1
	}
	err = t.write(ctx, "mark", func(ctx context.Context, tx *transaction) error {
		run = most + 1 // unless a row is written
		return each(ctx, tx, func(scan func(...any) error) error { return scan(&run) },
			`INSERT INTO ordering_marks (consumer, event, command, runs, marked) VALUES ($1, $2, $3, 1, $4)
			ON CONFLICT (consumer, event) DO UPDATE SET runs = ordering_marks.runs + 1, marked = excluded.marked
				WHERE ordering_marks.runs < $5 RETURNING runs`,
			t.consumer, key[:], command, toMicros(time.Now()), most)
	})
	if err != nil {
		return 0, err
	}
	return run, nil
}

// Unmark implements [ordering.Term].
func (t *term) Unmark(ctx context.Context, e *ordering.Event) error {
	if e == nil {
		return ordering.ErrNilEvent
	}
	key := ordering.MarkOf(e.Positions, e.ID)
	return t.store.write(ctx, "unmark", func(ctx context.Context, tx *transaction) error {
		for _, statement := range []string{
			`DELETE FROM ordering_marks WHERE consumer = $1 AND event = $2 AND runs <= 1`,
			`UPDATE ordering_marks SET runs = runs - 1 WHERE consumer = $1 AND event = $2`,
		} {
			if n, err := affected(tx.ExecContext(ctx, statement, t.consumer, key[:])); n > 0 || err != nil {
				return err
			}
		}
		return nil
	})
}

// forgetMark deletes the number of runs of an event.
func forgetMark(ctx context.Context, tx *transaction, consumer int64, positions []ordering.Position, id string) error {
	key := ordering.MarkOf(positions, id)
	_, err := tx.ExecContext(ctx, `DELETE FROM ordering_marks WHERE consumer = $1 AND event = $2`, consumer, key[:])
	return err
}
