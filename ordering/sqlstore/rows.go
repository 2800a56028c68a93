package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/ordering"
)

// Rows is a statement that inserts any number of rows, see [Batch]. It is safe for
// concurrent use; make one for each statement, once.
type Rows struct {
	columns int
	one     string    // with numbered arguments, which PostgreSQL needs
	many    [6]string // of 1, 2, 4, 8, 16 and 32 rows: few enough to stay compiled
}

// NewRows returns a statement. insert is its beginning, such as "INSERT INTO log
// (event, text)"; columns is the number of values in each row; then is its end, "" or
// an ON CONFLICT clause. It panics if columns is not positive.
func NewRows(insert string, columns int, then string) *Rows {
	if columns <= 0 {
		panic(fmt.Sprintf("sqlstore: NewRows: %d columns: there must be at least one (%.80q)", columns, insert))
	}
	marks := make([]string, columns)
	for i := range marks {
		marks[i] = "$" + strconv.Itoa(i+1)
	}
	r := &Rows{columns: columns, one: insert + " VALUES (" + strings.Join(marks, ", ") + ") " + then}
	row := "(" + strings.Repeat("?, ", columns-1) + "?)" // a name for each would take time
	for i := range r.many {
		r.many[i] = insert + " VALUES " + strings.Repeat(row+", ", 1<<i-1) + row + " " + then
	}
	return r
}

// One returns the statement for one row, with numbered arguments.
func (r *Rows) One() string { return r.one }

// Batch is rows that are to be written: the effect of an event that needs no query. The
// zero Batch is empty. It must not be changed once it was given to [Store.DoRows].
type Batch struct {
	queue queue
	err   error // of the first Add that was wrong
}

// Add adds a row. If the values are not as many as the columns of r, or r is nil,
// DoRows returns an error and writes nothing.
func (b *Batch) Add(r *Rows, values ...any) {
	switch {
	case b.err != nil:
	case r == nil:
		b.err = errors.New("sqlstore: Batch.Add: the statement is nil: make one with NewRows")
	case len(values) != r.columns:
		b.err = fmt.Errorf("sqlstore: Batch.Add: %d values for a row of %d columns: %.80q", len(values), r.columns, r.one)
	default:
		b.queue.add(r, values)
	}
}

// DoRows is [Store.Do] for an effect that is nothing but rows. Those of the same Rows
// are written in their order. On SQLite it takes a fraction of the time of an effect
// with a transaction: the rows of many events are written by one statement, shortly
// before their commit. So nothing may read these rows, or change them, in the
// transaction of another event, unless its lock keys keep the two apart. If rows are
// refused, by a constraint for example, DoRows returns that error. Within
// [Store.TogetherRows] it returns when the rows are noted. A nil Batch has no rows.
func (s *Store) DoRows(ctx context.Context, job ordering.Commitment, rows *Batch) error {
	if rows == nil {
		rows = &Batch{}
	}
	if rows.err != nil {
		return rows.err
	}
	c, err := s.newCommit(ctx, job.Record())
	if err != nil {
		return err
	}
	switch own := s.together(ctx); {
	case own == nil:
		err = s.writeRows(ctx, []*commit{c}, &rows.queue)
	case own.chain == nil:
		err = fmt.Errorf("%w: give rows within TogetherRows", ErrTogether)
	default:
		own.chain.commits = append(own.chain.commits, c)
		own.chain.queue.addAll(&rows.queue)
	}
	if err == nil {
		job.Committed()
	}
	return err
}

// TogetherRows is [Store.Together] for handlers that write by [Store.DoRows] alone.
// What the handlers before have written is in no transaction yet, so a handler must
// read it from where they have noted it. On SQLite others can write while the handlers
// run.
func (s *Store) TogetherRows(ctx context.Context, run func(ctx context.Context) error) error {
	chain := &rowChain{}
	if err := run(context.WithValue(ctx, togetherKey{s}, &transaction{chain: chain})); err != nil {
		return err
	}
	if len(chain.commits) == 0 {
		return nil
	}
	return s.writeRows(ctx, chain.commits, &chain.queue)
}

// rowChain is what the handlers within TogetherRows have given to DoRows.
type rowChain struct {
	commits []*commit
	queue   queue
}

func (s *Store) writeRows(ctx context.Context, commits []*commit, rows *queue) error {
	return s.writeWith(ctx, "commit", func(ctx context.Context, tx *transaction) error {
		for _, c := range commits {
			if err := s.backend.commit(ctx, tx, c); err != nil {
				return fmt.Errorf("%.80q: %w", c.Event.Name(), err)
			}
		}
		if tx.staged != nil {
			tx.staged.queue.addAll(rows)
			return nil
		}
		return rows.writeEach(ctx, tx)
	}, nil)
}

// queue is rows to be written.
type queue struct {
	order []*Rows
	rows  map[*Rows][]any // the values of all rows
}

func (q *queue) add(r *Rows, values []any) {
	all := q.rows[r]
	if len(all) == 0 {
		if q.rows == nil {
			q.rows = map[*Rows][]any{}
		}
		q.order = append(q.order, r)
	}
	q.rows[r] = append(all, values...)
}

func (q *queue) addAll(other *queue) {
	for _, r := range other.order {
		q.add(r, other.rows[r])
	}
}

// clear removes all rows, and keeps the memory of those that a group of usual size has.
func (q *queue) clear() {
	for _, r := range q.order {
		values := q.rows[r]
		clear(values)
		if q.rows[r] = values[:0]; cap(values) > maxKept {
			delete(q.rows, r)
		}
	}
	q.order = q.order[:0]
}

// maxKept bounds the values of a statement for which memory is kept.
const maxKept = 1 << 14

// write writes all rows.
func (q *queue) write(ctx context.Context, tx *transaction) error {
	for _, r := range q.order {
		values := q.rows[r]
		for i := len(r.many) - 1; i >= 0; i-- {
			for n := r.columns << i; len(values) >= n; values = values[n:] {
				if _, err := tx.ExecContext(ctx, r.many[i], values[:n]...); err != nil {
					return err
				}
			}
		}
	}
	q.clear()
	return nil
}

// writeEach writes all rows by a statement each.
func (q *queue) writeEach(ctx context.Context, tx *transaction) error {
	for _, r := range q.order {
		for values := q.rows[r]; len(values) > 0; values = values[r.columns:] {
			if _, err := tx.ExecContext(ctx, r.one, values[:r.columns]...); err != nil {
				return &effectError{err}
			}
		}
	}
	return nil
}
