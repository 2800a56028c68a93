package store

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/shopspring/decimal"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// atOnce bounds what one query asks for: databases bound the arguments and the
// parts of a query.
const atOnce = 64

// States implements [book.Reader].
func (d *Database) States(ctx context.Context, accounts []book.Account) ([]book.State, error) {
	states := make([]book.State, len(accounts))
	missing := d.cache.statesOf(chainOf(ctx).states, accounts, states)
	found, err := readMissing(ctx, missing, d.readStates)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		d.cache.put(found, nil)
		fill(states, accounts, found)
	}
	return states, nil
}

func (d *Database) readStates(ctx context.Context, accounts []book.Account, found map[book.Account]book.State) error {
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
	return each(ctx, query, args, func(scan scanFunc) error {
		var account book.Account
		var state book.State
		err := scan((*string)(&account), &state)
		found[account] = state
		return err
	})
}

// Amounts implements [book.Reader].
func (d *Database) Amounts(ctx context.Context, holdings []book.Holding) ([]decimal.Decimal, error) {
	amounts := make([]decimal.Decimal, len(holdings))
	missing := d.cache.amountsOf(chainOf(ctx).amounts, holdings, amounts)
	found, err := readMissing(ctx, missing, d.readAmounts)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		d.cache.put(nil, found)
		fill(amounts, holdings, found)
	}
	return amounts, nil
}

func (d *Database) readAmounts(ctx context.Context, holdings []book.Holding, found map[book.Holding]decimal.Decimal) error {
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
	return each(ctx, query, args, func(scan scanFunc) error {
		var h book.Holding
		var amount decimal.Decimal
		err := scan((*string)(&h.Account), (*string)(&h.Commodity), &amount)
		found[h] = amount
		return err
	})
}

// readMissing reads the values of keys that are in no cache, some at a time. A key that
// the database does not have gets the zero value.
func readMissing[K comparable, V any](ctx context.Context, missing []K, read func(context.Context, []K, map[K]V) error) (map[K]V, error) {
	if len(missing) == 0 {
		return nil, nil
	}
	found := make(map[K]V, len(missing))
	for _, key := range missing {
		var none V
		found[key] = none
	}
	for some := range slices.Chunk(missing, atOnce) {
		if err := read(ctx, some, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// fill puts what was found into the places of its keys.
func fill[K comparable, V any](values []V, keys []K, found map[K]V) {
	for i, key := range keys {
		if v, ok := found[key]; ok {
			values[i] = v
		}
	}
}

// byNumber are queries that differ in the number of their arguments: of int to
// [*sql.Stmt].
type byNumber struct{ sync.Map }

// queryFor returns the query with n arguments, the text of which is that for
// their marks.
func (d *Database) queryFor(ctx context.Context, b *byNumber, n int, text func(marks []string) string) (*sql.Stmt, error) {
	if q, ok := b.Load(n); ok {
		return q.(*sql.Stmt), nil
	}
	marks := make([]string, n)
	for i := range marks {
		marks[i] = "$" + strconv.Itoa(i+1)
	}
	q, err := d.numbers.DB().PrepareContext(ctx, text(marks))
	if err != nil {
		return nil, err
	}
	kept, had := b.LoadOrStore(n, q)
	if had { // by another handler just now
		err = q.Close()
	}
	return kept.(*sql.Stmt), err
}

// Balances implements [book.Reader].
func (d *Database) Balances(ctx context.Context, subtree book.Account) ([]book.Posting, error) {
	statement, args := d.subtree, []any{string(subtree)}
	if subtree == book.Root {
		statement, args = d.all, nil
	}
	written := chainOf(ctx).amounts
	var list []book.Posting
	err := each(ctx, statement, args, func(scan scanFunc) error {
		var p book.Posting
		err := scan((*string)(&p.Account), (*string)(&p.Commodity), &p.Amount.Decimal)
		if _, ok := written[book.Holding{Account: p.Account, Commodity: p.Commodity}]; !ok {
			list = append(list, p)
		}
		return err
	})
	for h, amount := range written {
		if subtree.Contains(h.Account) {
			p := posting(h)
			p.Amount.Decimal = amount
			list = append(list, p)
		}
	}
	return list, err
}

// Exists implements [book.Reader].
func (d *Database) Exists(ctx context.Context, subtree book.Account) (exists bool, err error) {
	for a := range chainOf(ctx).states {
		if subtree.Contains(a) {
			return true, nil
		}
	}
	statement, args := d.exists, []any{string(subtree)}
	if subtree == book.Root {
		statement, args = d.existsAny, nil
	}
	err = each(ctx, statement, args, func(scan scanFunc) error { return scan(&exists) })
	return exists, err
}

type scanFunc = func(dest ...any) error

// each calls use for every row of a query. It is on a connection for reads, which sees
// the last commit: what a message may read, nobody else is changing, and what its chain
// has written is over it. The reads of a handler are short, so they run to their end:
// watching a context costs more than they do.
func each(ctx context.Context, query *sql.Stmt, args []any, use func(scan scanFunc) error) error {
	rows, err := query.QueryContext(context.WithoutCancel(ctx), args...)
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
func (d *Database) Last(ctx context.Context) (journal, refusal int64, err error) {
	err = d.numbers.DB().QueryRowContext(ctx, `SELECT (SELECT coalesce(max(entry), 0) FROM journal), (SELECT coalesce(max(entry), 0) FROM refusals)`).
		Scan(&journal, &refusal)
	return journal, refusal, err
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
