package store

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/shopspring/decimal"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// atOnce bounds what one query asks for: databases bound the arguments and the
// parts of a query.
const atOnce = 64

// States implements [book.Reader].
func (d *Database) States(ctx context.Context, accounts []book.Account) (states []book.State, err error) {
	for some := range slices.Chunk(accounts, atOnce) {
		states = append(states, make([]book.State, len(some))...)
		if err := d.readStates(ctx, some, states[len(states)-len(some):]); err != nil {
			return nil, err
		}
	}
	return states, nil
}

func (d *Database) readStates(ctx context.Context, accounts []book.Account, states []book.State) error {
	query, err := d.queryFor(ctx, &d.states, len(accounts), func(marks []string) string {
		return `SELECT account, state FROM accounts WHERE account IN (` + strings.Join(marks, ", ") + `)`
	})
	if err != nil {
		return err
	}
	args := make([]any, len(accounts))
	for i, a := range accounts {
		args[i] = string(a)
	}
	return d.each(ctx, query, args, func(scan scanFunc) error {
		var account book.Account
		var state book.State
		err := scan((*string)(&account), &state)
		if i := slices.Index(accounts, account); i >= 0 {
			states[i] = state
		}
		return err
	})
}

// Amounts implements [book.Reader].
func (d *Database) Amounts(ctx context.Context, holdings []book.Holding) (amounts []decimal.Decimal, err error) {
	for some := range slices.Chunk(holdings, atOnce) {
		amounts = append(amounts, make([]decimal.Decimal, len(some))...)
		if err := d.readAmounts(ctx, some, amounts[len(amounts)-len(some):]); err != nil {
			return nil, err
		}
	}
	return amounts, nil
}

func (d *Database) readAmounts(ctx context.Context, holdings []book.Holding, amounts []decimal.Decimal) error {
	query, err := d.queryFor(ctx, &d.amounts, 2*len(holdings), func(marks []string) string {
		var parts []string
		for i := 0; i < len(marks); i += 2 {
			parts = append(parts, `SELECT account, commodity, amount FROM balances WHERE account = `+marks[i]+` AND commodity = `+marks[i+1])
		}
		return strings.Join(parts, ` UNION ALL `)
	})
	if err != nil {
		return err
	}
	args := make([]any, 0, 2*len(holdings))
	for _, h := range holdings {
		args = append(args, string(h.Account), string(h.Commodity))
	}
	return d.each(ctx, query, args, func(scan scanFunc) error {
		var h book.Holding
		var amount decimal.Decimal
		err := scan((*string)(&h.Account), (*string)(&h.Commodity), &amount)
		if i := slices.Index(holdings, h); i >= 0 {
			amounts[i] = amount
		}
		return err
	})
}

// byNumber are queries that differ in the number of their arguments: of int to
// query. Its lock is never held while one is prepared: that waits for the writing
// connection, and so for handlers that may ask for a query here.
type byNumber struct{ sync.Map }

// queryFor returns the query with n arguments, the text of which is that for
// their marks.
func (d *Database) queryFor(ctx context.Context, b *byNumber, n int, text func(marks []string) string) (query, error) {
	if q, ok := b.Load(n); ok {
		return q.(query), nil
	}
	if d.numbers.TogetherTx(ctx) != nil {
		return query{}, dispatcher.ErrAlone // no query can be prepared meanwhile
	}
	marks := make([]string, n)
	for i := range marks {
		marks[i] = "$" + strconv.Itoa(i+1)
	}
	q, err := d.query(ctx, text(marks))
	if err != nil {
		return query{}, err
	}
	kept, had := b.LoadOrStore(n, q)
	if had { // by another handler just now
		err = errors.Join(q.outside.Close(), q.together.Close())
	}
	return kept.(query), err
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
