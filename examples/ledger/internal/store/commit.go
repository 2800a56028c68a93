package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/ordering"
)

// takeOver makes this program the holder; see [Database]. Others wait for the
// lock behind it, so that it is not kept waiting by ever new commits.
func (d *Database) takeOver(ctx context.Context) error {
	if d.name != onPostgres {
		return nil
	}
	var term int64
	err := d.numbers.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `SET LOCAL lock_timeout = '60s'`); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `LOCK TABLE holder IN ACCESS EXCLUSIVE MODE`); err != nil {
			return fmt.Errorf("another session does not let go of the table holder: %w", err)
		}
		return tx.QueryRowContext(ctx, `UPDATE holder SET term = term + 1 RETURNING term`).Scan(&term)
	})
	d.guard = fmt.Sprintf(` FROM holder WHERE term = %d`, term)
	return err
}

// guarded takes the result of an insertion that the holder alone can do.
func guarded(r sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return fmt.Errorf("%w: another program has opened the database", ordering.ErrFenced)
}

// Commit implements [Store]. A context that ends while the changes still wait
// for their turn withdraws them.
func (d *Database) Commit(ctx context.Context, job ordering.Commitment, r Result) error {
	err := d.numbers.Do(ctx, job, func(ctx context.Context, tx *sql.Tx) error {
		if r.Known != nil {
			answer, err := json.Marshal(r.Known.Answer)
			if err != nil {
				return err
			}
			if _, err := tx.StmtContext(ctx, d.writes.known).ExecContext(ctx, r.Known.ID, r.Known.Digest, string(answer)); err != nil {
				return err
			}
		}
		switch {
		case r.Changes != nil:
			return d.apply(ctx, tx, r.Event, r.Changes)
		case r.Refusal != nil:
			return d.refuse(ctx, tx, r.Refusal)
		}
		return nil
	})
	if err == nil && !r.IsCopy() {
		if n, ok := ctx.Value(togetherKey{}).(*int64); ok {
			*n++
		} else {
			d.messages.Add(1)
		}
	}
	return err
}

type togetherKey struct{}

// Together runs several handlers, of messages that wait for each other, in one
// transaction, into which their Commits write; see [ordering.Config].
func (d *Database) Together(ctx context.Context, run func(context.Context) error) error {
	messages := int64(0)
	err := d.numbers.Together(context.WithValue(ctx, togetherKey{}, &messages), run)
	if err == nil {
		d.messages.Add(messages)
	}
	return err
}

func (d *Database) refuse(ctx context.Context, tx *sql.Tx, r *Refusal) error {
	return guarded(tx.StmtContext(ctx, d.writes.refusal).ExecContext(ctx,
		r.Event, r.Input, r.Line, string(r.Reason), r.Detail, string(r.Message)))
}

// Refuse implements [Store].
func (d *Database) Refuse(ctx context.Context, r Refusal) error {
	return d.numbers.Write(ctx, func(ctx context.Context, tx *sql.Tx) error { return d.refuse(ctx, tx, &r) })
}

func (d *Database) apply(ctx context.Context, tx *sql.Tx, e *ordering.Event, c *book.Changes) error {
	for account, state := range c.States {
		if _, err := tx.StmtContext(ctx, d.writes.state).ExecContext(ctx, string(account), int64(state)); err != nil {
			return err
		}
	}
	for h, amount := range c.Balances {
		text := book.Amount{Decimal: amount}.String()
		if _, err := tx.StmtContext(ctx, d.writes.balance).ExecContext(ctx, string(h.Account), string(h.Commodity), text); err != nil {
			return err
		}
	}
	event := e.Name()
	for _, m := range c.Closing {
		if _, err := tx.StmtContext(ctx, d.writes.closing).ExecContext(ctx, event, string(m.Commodity), m.Amount.String()); err != nil {
			return err
		}
	}
	return guarded(tx.StmtContext(ctx, d.writes.journal).ExecContext(ctx, event, string(e.Payload)))
}

// Known implements [Store].
func (d *Database) Known(ctx context.Context, id string) (known *Known, err error) {
	err = d.each(ctx, d.known, []any{id}, func(scan scanFunc) error {
		known = &Known{ID: id}
		var text string
		if err := scan(&known.Digest, &text); err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &known.Answer)
	})
	return known, err
}

// Refusals implements [Store].
func (d *Database) Refusals(ctx context.Context, input int64, use func(Refusal) error) error {
	rows, err := d.numbers.DB().QueryContext(ctx,
		`SELECT event, line, reason, detail, message FROM refusals WHERE input = $1 ORDER BY entry`, input)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		f := Refusal{Input: input}
		if err := rows.Scan(&f.Event, &f.Line, (*string)(&f.Reason), &f.Detail, &f.Message); err != nil {
			return err
		}
		if err := use(f); err != nil {
			return err
		}
	}
	return rows.Err()
}
