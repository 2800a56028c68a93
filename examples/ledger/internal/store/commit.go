package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/shopspring/decimal"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
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

// What a message writes. On SQLite its rows are written together with those of others.
var (
	stateRows   = sqlstore.NewRows(`INSERT INTO accounts (account, state)`, 2, `ON CONFLICT (account) DO UPDATE SET state = excluded.state`)
	balanceRows = sqlstore.NewRows(`INSERT INTO balances (account, commodity, amount)`, 3,
		`ON CONFLICT (account, commodity) DO UPDATE SET amount = excluded.amount`)
	closingRows = sqlstore.NewRows(`INSERT INTO closings (event, commodity, total)`, 3, "")
	knownRows   = sqlstore.NewRows(`INSERT INTO known (id, digest, answer)`, 3, "")
	journalRows = sqlstore.NewRows(`INSERT INTO journal (event, message)`, 2, "")
	refusalRows = sqlstore.NewRows(`INSERT INTO refusals (event, input, line, reason, detail, message)`, 6, "")
)

// put inserts a row, or changes it. On PostgreSQL guarded does so if this program is
// the holder, where nothing else sees to that.
type put func(rows *sqlstore.Rows, guarded *sql.Stmt, values ...any) error

// into returns one for a transaction.
func into(ctx context.Context, tx *sql.Tx) put {
	return func(rows *sqlstore.Rows, guarded *sql.Stmt, values ...any) error {
		if guarded == nil {
			_, err := tx.ExecContext(ctx, rows.One(), values...)
			return err
		}
		r, err := tx.StmtContext(ctx, guarded).ExecContext(ctx, values...)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 1 {
			return err
		}
		return fmt.Errorf("%w: another program has opened the database", ordering.ErrFenced)
	}
}

// Commit implements [Store]. A context that ends while the changes still wait
// for their turn withdraws them.
func (d *Database) Commit(ctx context.Context, job ordering.Commitment, r Result) error {
	var err error
	if d.guard == "" {
		var batch sqlstore.Batch
		err = d.write(&r, func(rows *sqlstore.Rows, _ *sql.Stmt, values ...any) error {
			batch.Add(rows, values...)
			return nil
		})
		if err == nil {
			err = d.numbers.DoRows(ctx, job, &batch)
		}
	} else {
		err = d.numbers.Do(ctx, job, func(ctx context.Context, tx *sql.Tx) error { return d.write(&r, into(ctx, tx)) })
	}
	if err != nil {
		d.cache.forget()
		return err
	}
	if c, ok := ctx.Value(chainKey{}).(*chain); ok {
		c.add(&r)
		return nil
	}
	if r.Changes != nil {
		d.cache.put(r.Changes.States, r.Changes.Balances)
	}
	if !r.IsCopy() {
		d.messages.Add(1)
	}
	return nil
}

// Together runs several handlers, of messages that wait for each other, and makes what
// their Commits write lasting in one transaction; see [ordering.Config].
func (d *Database) Together(ctx context.Context, run func(context.Context) error) error {
	c := &chain{states: map[book.Account]book.State{}, amounts: map[book.Holding]decimal.Decimal{}, known: map[string]*Known{}}
	together := d.numbers.Together
	if d.guard == "" {
		together = d.numbers.TogetherRows
	}
	err := together(context.WithValue(ctx, chainKey{}, c), run)
	if err != nil {
		d.cache.forget()
		return err
	}
	d.cache.put(c.states, c.amounts)
	d.messages.Add(c.messages)
	return nil
}

// write puts what came of a message.
func (d *Database) write(r *Result, put put) error {
	if r.Known != nil {
		answer, err := json.Marshal(r.Known.Answer)
		if err != nil {
			return err
		}
		if err := put(knownRows, nil, r.Known.ID, r.Known.Digest, string(answer)); err != nil {
			return err
		}
	}
	switch {
	case r.Changes != nil:
		return d.apply(r.Event, r.Changes, put)
	case r.Refusal != nil:
		return d.refuse(r.Refusal, put)
	}
	return nil
}

func (d *Database) refuse(r *Refusal, put put) error {
	return put(refusalRows, d.guarded.refusal, r.Event, r.Input, int64(r.Line), string(r.Reason), r.Detail, string(r.Message))
}

// Refuse implements [Store].
func (d *Database) Refuse(ctx context.Context, r Refusal) error {
	return d.numbers.Write(ctx, func(ctx context.Context, tx *sql.Tx) error { return d.refuse(&r, into(ctx, tx)) })
}

func (d *Database) apply(e *ordering.Event, c *book.Changes, put put) error {
	for account, state := range c.States {
		if err := put(stateRows, nil, string(account), int64(state)); err != nil {
			return err
		}
	}
	for h, amount := range c.Balances {
		text := book.Amount{Decimal: amount}.String()
		if err := put(balanceRows, nil, string(h.Account), string(h.Commodity), text); err != nil {
			return err
		}
	}
	event := e.Name()
	for _, m := range c.Closing {
		if err := put(closingRows, nil, event, string(m.Commodity), m.Amount.String()); err != nil {
			return err
		}
	}
	return put(journalRows, d.guarded.journal, event, string(e.Payload))
}

// Known implements [Store].
func (d *Database) Known(ctx context.Context, id string) (known *Known, err error) {
	if known := chainOf(ctx).known[id]; known != nil {
		return known, nil
	}
	err = each(ctx, d.known, []any{id}, func(scan scanFunc) error {
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
		`SELECT entry, event, line, reason, detail, message FROM refusals WHERE input = $1 ORDER BY entry`, input)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		f := Refusal{Input: input}
		if err := rows.Scan(&f.Entry, &f.Event, &f.Line, (*string)(&f.Reason), &f.Detail, &f.Message); err != nil {
			return err
		}
		if err := use(f); err != nil {
			return err
		}
	}
	return rows.Err()
}
