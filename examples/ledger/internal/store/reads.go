package store

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// States implements [book.Reader].
func (d *Database) States(ctx context.Context, accounts []book.Account) ([]book.State, error) {
	statement, err := d.statesFor(ctx, len(accounts))
	if err != nil {
		return nil, err
	}
	args := make([]any, len(accounts))
	for i, a := range accounts {
		args[i] = string(a)
	}
	states := make([]book.State, len(accounts))
	err = d.each(ctx, statement, args, func(scan scanFunc) error {
		var account book.Account
		var state book.State
		err := scan((*string)(&account), &state)
		if i := slices.Index(accounts, account); i >= 0 {
			states[i] = state
		}
		return err
	})
	return states, err
}

// statesFor returns the query for the states of n accounts.
func (d *Database) statesFor(ctx context.Context, n int) (query, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q, ok := d.mu.states[n]; ok {
		return q, nil
	}
	if d.numbers.TogetherTx(ctx) != nil {
		return query{}, dispatcher.ErrAlone // no query can be prepared meanwhile
	}
	marks := make([]string, n)
	for i := range marks {
		marks[i] = "$" + strconv.Itoa(i+1)
	}
	q, err := d.query(ctx, `SELECT account, state FROM accounts WHERE account IN (`+strings.Join(marks, ", ")+`)`)
	if err == nil {
		d.mu.states[n] = q
	}
	return q, err
}

// Balance implements [book.Reader].
func (d *Database) Balance(ctx context.Context, h book.Holding) (decimal.Decimal, error) {
	var amount decimal.Decimal
	err := d.each(ctx, d.balance, []any{string(h.Account), string(h.Commodity)}, func(scan scanFunc) error {
		return scan(&amount)
	})
	return amount, err
}

// Balances implements [book.Reader].
func (d *Database) Balances(ctx context.Context, subtree book.Account) ([]book.Posting, error) {
	statement, args := d.subtree, []any{string(subtree)}
	if subtree == book.Root {
		statement, args = d.all, nil
	}
	var list []book.Posting
	err := d.each(ctx, statement, args, func(scan scanFunc) error {
		var p book.Posting
		err := scan((*string)(&p.Account), (*string)(&p.Commodity), &p.Amount.Decimal)
		list = append(list, p)
		return err
	})
	return list, err
}

// Exists implements [book.Reader].
func (d *Database) Exists(ctx context.Context, subtree book.Account) (exists bool, err error) {
	statement, args := d.exists, []any{string(subtree)}
	if subtree == book.Root {
		statement, args = d.existsAny, nil
	}
	err = d.each(ctx, statement, args, func(scan scanFunc) error { return scan(&exists) })
	return exists, err
}

type scanFunc = func(dest ...any) error

// each calls use for every row of a query. The reads of a handler are short,
// so they run to their end: watching a context costs more than they do.
func (d *Database) each(ctx context.Context, q query, args []any, use func(scan scanFunc) error) error {
	statement := q.outside
	if tx := d.numbers.TogetherTx(ctx); tx != nil {
		statement = tx.StmtContext(ctx, q.together)
	}
	rows, err := statement.QueryContext(context.WithoutCancel(ctx), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := use(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Last implements [Store].
func (d *Database) Last(ctx context.Context) (last int64, err error) {
	err = d.numbers.DB().QueryRowContext(ctx, `SELECT coalesce(max(entry), 0) FROM journal`).Scan(&last)
	return last, err
}

// Journal implements [Store].
func (d *Database) Journal(ctx context.Context, after int64) (n int, err error) {
	err = d.numbers.DB().QueryRowContext(ctx, `SELECT count(*) FROM journal WHERE entry > $1`, after).Scan(&n)
	return n, err
}

// Accounts implements [Store].
func (d *Database) Accounts(ctx context.Context) ([]book.Account, error) {
	rows, err := d.numbers.DB().QueryContext(ctx, `SELECT account FROM accounts`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []book.Account
	for rows.Next() {
		var a string
		if err := rows.Scan(&a); err != nil {
			return nil, err
		}
		list = append(list, book.Account(a))
	}
	slices.SortFunc(list, book.Account.Compare)
	return list, rows.Err()
}
