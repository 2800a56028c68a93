package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// InTx is [sqlstore.InTx] with a transaction of pgx, which costs fewer round trips: an
// event costs one, and one more for each of its own statements that is not queued. The
// store must be one of this package. It panics if the store or the handler is nil.
func InTx[T any](s *sqlstore.Store, handler func(ctx context.Context, tx *Tx, job ordering.Job[T]) error) ordering.Handler[T] {
	if s == nil || handler == nil {
		panic("postgres: InTx: the store or the handler is nil")
	}
	return func(ctx context.Context, job ordering.Job[T]) error {
		return Do(ctx, s, job, func(ctx context.Context, tx *Tx) error { return handler(ctx, tx, job) })
	}
}

// Do is [sqlstore.Store.Do] with a transaction of pgx; see [InTx].
func Do(ctx context.Context, s *sqlstore.Store, job ordering.Commitment, apply func(ctx context.Context, tx *Tx) error) error {
	return s.DoRaw(ctx, job, func(ctx context.Context, c sqlstore.Session) error {
		guard, ok := c.(*conn)
		if !ok {
			return fmt.Errorf("postgres: the store is of another package: %w", errors.ErrUnsupported)
		}
		tx := &Tx{conn: guard}
		defer func() { tx.conn = nil }()
		if err := apply(ctx, tx); err != nil {
			return err
		}
		return guard.refused
	})
}

// Tx is the transaction of an effect, a [pgx.Tx]. BEGIN is sent with its first statement,
// and COMMIT with the numbers of the event, when the effect has returned. It is not safe
// for concurrent use, and must not be used after that.
//
// The store commits: Commit, Rollback and statements that end the transaction are
// refused with [sqlstore.ErrEnded] or [sqlstore.ErrForbidden]. So are texts of several
// statements, and SET, which later effects would find on the connection: use SET LOCAL.
// Nobody can tell what functions do there: set_config must have true as its last argument.
// Begin makes a savepoint, which has the same limits.
type Tx struct {
	conn  *conn  // nil when it has ended
	outer *Tx    // of a savepoint, which ends with it at the latest
	point pgx.Tx // that ends the savepoint
}

var _ pgx.Tx = (*Tx)(nil)

// Queue adds a statement whose result the effect does not need. It costs no round trip:
// it is sent with the next statement, or with the COMMIT. If it fails, that fails, and
// so does the event.
//
// With [sqlstore.Store.Together], all that a chain of events has queued is sent at once.
func (t *Tx) Queue(sql string, args ...any) {
	c, err := t.use()
	if err != nil || c.refused != nil {
		return
	}
	if c.refused = c.enter(sql); c.refused == nil {
		c.queued = append(c.queued, &pgx.QueuedQuery{SQL: sql, Arguments: args})
	}
}

// use returns the connection, if the effect still has it.
func (t *Tx) use() (*conn, error) {
	if t.conn == nil {
		return nil, pgx.ErrTxClosed
	}
	if t.outer != nil {
		return t.outer.use()
	}
	if t.conn.look(); t.conn.ended {
		return nil, sqlstore.ErrEnded
	}
	return t.conn, nil
}

// Exec implements [pgx.Tx].
func (t *Tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	c, err := t.use()
	if err == nil {
		err = c.enter(sql)
	}
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	if err := c.single(ctx, sql, len(args)); err != nil {
		return pgconn.CommandTag{}, err
	}
	if !c.isDue() {
		return c.pgx().Exec(ctx, sql, args...)
	}
	results, err := c.send(ctx, &pgx.QueuedQuery{SQL: sql, Arguments: args})
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	if end := results.Close(); err == nil {
		err = end
	}
	return tag, err
}

// Query implements [pgx.Tx].
func (t *Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c, err := t.use()
	if err == nil {
		err = c.enter(sql)
	}
	if err != nil {
		return pgx.FailedBatchResults(&pgx.Batch{}, err).Query()
	}
	if !c.isDue() {
		return c.pgx().Query(ctx, sql, args...)
	}
	results, err := c.send(ctx, &pgx.QueuedQuery{SQL: sql, Arguments: args})
	if err != nil {
		return pgx.FailedBatchResults(&pgx.Batch{}, err).Query()
	}
	inner, err := results.Query()
	return &rows{inner, results}, err
}

// QueryRow implements [pgx.Tx].
func (t *Tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, _ := t.Query(ctx, sql, args...)
	return row{rows}
}

// SendBatch implements [pgx.Tx].
func (t *Tx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	c, err := t.use()
	for _, q := range b.QueuedQueries {
		if err == nil {
			err = c.enter(q.SQL)
		}
	}
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	if !c.isDue() {
		return c.pgx().SendBatch(ctx, b)
	}
	results, err := c.send(ctx, b.QueuedQueries...)
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return results
}

// begun sends what is due, and returns the transaction.
func (t *Tx) begun(ctx context.Context) (pgx.Tx, error) {
	c, err := t.use()
	if err == nil {
		err = c.flush(ctx)
	}
	if err != nil {
		return nil, err
	}
	return c.tx, nil
}

// CopyFrom implements [pgx.Tx].
func (t *Tx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, source pgx.CopyFromSource) (int64, error) {
	tx, err := t.begun(ctx)
	if err != nil {
		return 0, err
	}
	return tx.CopyFrom(ctx, table, columns, source)
}

// Begin implements [pgx.Tx], by a savepoint. Until the savepoint has ended, use only
// the transaction that Begin returns.
func (t *Tx) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := t.begun(ctx)
	if err != nil {
		return nil, err
	}
	point, err := tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &Tx{conn: t.conn, outer: t, point: point}, nil
}

// Prepare implements [pgx.Tx]. The statement stays prepared on this connection only,
// and pgx prepares what is used often by itself.
func (t *Tx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	c, err := t.use()
	if err != nil {
		return nil, err
	}
	return c.pgx().Prepare(ctx, name, sql)
}

// LargeObjects implements [pgx.Tx]. It panics if the transaction cannot begin.
func (t *Tx) LargeObjects() pgx.LargeObjects {
	tx, err := t.begun(context.Background())
	if err != nil {
		panic(err)
	}
	return tx.LargeObjects()
}

// Conn implements [pgx.Tx]. Do not run statements on the connection: they could come
// before BEGIN. It is nil once the effect has returned.
func (t *Tx) Conn() *pgx.Conn {
	c, err := t.use()
	if err != nil {
		return nil
	}
	return c.pgx()
}

// Commit implements [pgx.Tx]. It releases a savepoint; of the transaction itself it makes
// the effect fail.
func (t *Tx) Commit(ctx context.Context) error { return t.end(ctx, pgx.Tx.Commit) }

// Rollback implements [pgx.Tx]. It goes back to a savepoint; of the transaction itself it
// makes the effect fail.
func (t *Tx) Rollback(ctx context.Context) error { return t.end(ctx, pgx.Tx.Rollback) }

func (t *Tx) end(ctx context.Context, end func(pgx.Tx, context.Context) error) error {
	if t.point != nil {
		if _, err := t.begun(ctx); err != nil { // what is queued is part of it
			return err
		}
		t.conn = nil
		return end(t.point, ctx)
	}
	c, err := t.use()
	if err != nil {
		return err
	}
	c.ended = true
	return sqlstore.ErrEnded
}

// rows are the rows of a query that was sent in a batch, which ends with them.
type rows struct {
	pgx.Rows
	batch pgx.BatchResults
}

// Next implements [pgx.Rows].
func (r *rows) Next() bool {
	more := r.Rows.Next()
	if !more {
		r.Close()
	}
	return more
}

// Scan implements [pgx.Rows].
func (r *rows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	if err != nil {
		r.Close()
	}
	return err
}

// Values implements [pgx.Rows].
func (r *rows) Values() ([]any, error) {
	values, err := r.Rows.Values()
	if err != nil {
		r.Close()
	}
	return values, err
}

// Close implements [pgx.Rows].
func (r *rows) Close() {
	r.Rows.Close()
	_ = r.batch.Close() // its error is that of the rows
}

// row is the first of some rows.
type row struct{ rows pgx.Rows }

// Scan implements [pgx.Row].
func (r row) Scan(dest ...any) error {
	defer r.rows.Close()
	if !r.rows.Next() {
		r.rows.Close()
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
