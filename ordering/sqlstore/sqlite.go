package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering"
)

// NewSQLite makes a store of SQLite databases that are opened already; package
// sqlite does so from a path. writes has one connection, whose transactions
// begin as IMMEDIATE; reads has several. The store closes both, also on an
// error.
//
// The store has the database to itself: who opens it takes all streams over,
// and commits of those who opened it before are refused with
// [ordering.ErrFenced].
func NewSQLite(ctx context.Context, writes, reads *sql.DB) (_ *Store, err error) {
	w := &writer{db: writes, queue: make(chan *request, maxGroup), stop: make(chan struct{}), done: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, writes.Close(), reads.Close())
		}
	}()
	if err := schemaError(sqldb.Migrate(ctx, writes, sqldb.SQLite, "ordering", steps(sqldb.SQLite))); err != nil {
		return nil, err
	}
	if err := w.prepare(ctx); err != nil {
		return nil, err
	}
	go w.run()
	return &Store{db: reads, dialect: sqldb.SQLite, backend: &sqlite{w, reads}, commits: &w.commits, closed: make(chan struct{})}, nil
}

// writer is the one that writes to an SQLite database. It takes all that waits
// to be written into one transaction, since a flush to the disk costs the same
// for one as for many. While it waits for the disk the next ones gather.
type writer struct {
	db    *sql.DB
	token int64 // of this session; a newer one in the database has it
	queue chan *request
	stop  chan struct{}
	done  chan struct{}

	commits atomic.Int64

	session, savepoint, release, undo, first, next, job *sql.Stmt
}

// request is something to be written.
type request struct {
	ctx    context.Context
	tx     chan *sql.Tx // the writer lends its transaction,
	used   chan error   // and gets it back
	result chan error   // of the commit
	taken  atomic.Bool  // by the writer, or by who gave up waiting
}

// maxGroup bounds what is written in one transaction, and so how long the
// first waits for the last.
const maxGroup = 512

// maxYields is how often the writer lets others run before it begins.
const maxYields = 4

func (w *writer) prepare(ctx context.Context) error {
	err := w.db.QueryRowContext(ctx, `UPDATE ordering_session SET token = token + 1 RETURNING token`).Scan(&w.token)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		statement **sql.Stmt
		text      string
	}{
		{&w.session, `SELECT token FROM ordering_session`},
		{&w.savepoint, `SAVEPOINT one`},
		{&w.release, `RELEASE one`},
		{&w.undo, `ROLLBACK TO one`},
		{&w.first, `INSERT INTO ordering_streams (stream, last) VALUES ($1, 1)
			ON CONFLICT (stream) DO UPDATE SET last = 1 WHERE last = 0 AND spans = 0`},
		{&w.next, `UPDATE ordering_streams SET last = $1 WHERE stream = $2 AND last = $1 - 1 AND spans = 0`},
		{&w.job, putJob},
	} {
		if *p.statement, err = w.db.PrepareContext(ctx, p.text); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) run() {
	defer close(w.done)
	for {
		select {
		case r := <-w.queue:
			w.write(w.gather(r))
		case <-w.stop:
			return
		}
	}
}

// gather returns first and those that wait behind it. Workers that have just
// been told of the last group are let go first: they come back at once with
// their next events, and make the group twice as large as it would be.
func (w *writer) gather(first *request) []*request {
	group := []*request{first}
	for yields := 0; len(group) < maxGroup; {
		select {
		case r := <-w.queue:
			group = append(group, r)
			continue
		default:
		}
		if yields++; yields > maxYields {
			break
		}
		runtime.Gosched()
	}
	return group
}

// write writes a group and tells each what became of it.
func (w *writer) write(group []*request) {
	results := make([]error, len(group))
	if err := w.transaction(group, results); err != nil {
		for i := range results {
			if results[i] == nil {
				results[i] = err
			}
		}
	}
	for i, r := range group {
		r.result <- results[i]
	}
}

// transaction writes a group in one transaction. An error of one that is not
// the transaction's goes into its result.
func (w *writer) transaction(group []*request, results []error) error {
	ctx := context.Background()
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of what was not committed
	var token int64
	if err := tx.StmtContext(ctx, w.session).QueryRowContext(ctx).Scan(&token); err != nil {
		return err
	}
	if token != w.token {
		return fmt.Errorf("%w: another program has opened the database", ordering.ErrFenced)
	}
	written := false
	for i, r := range group {
		if !r.taken.CompareAndSwap(false, true) {
			results[i] = context.Cause(r.ctx) // nobody waits for it any more
			continue
		}
		if _, err := tx.StmtContext(ctx, w.savepoint).ExecContext(ctx); err != nil {
			return err
		}
		r.tx <- tx
		if results[i] = <-r.used; results[i] != nil {
			if _, err := tx.StmtContext(ctx, w.undo).ExecContext(ctx); err != nil {
				return err
			}
		}
		if _, err := tx.StmtContext(ctx, w.release).ExecContext(ctx); err != nil {
			return err
		}
		written = written || results[i] == nil
	}
	if !written {
		return nil
	}
	err = tx.Commit()
	if err == nil {
		w.commits.Add(1)
	}
	return err
}

// sqlite is the backend of an SQLite database.
type sqlite struct {
	*writer
	reads *sql.DB
}

// write implements backend. do runs on the goroutine of the caller, while the
// writer lends it the transaction.
func (b *sqlite) write(ctx context.Context, op string, do func(ctx context.Context, tx *sql.Tx) error) error {
	r := &request{ctx: ctx, tx: make(chan *sql.Tx, 1), used: make(chan error, 1), result: make(chan error, 1)}
	select {
	case b.queue <- r:
	case <-b.stop:
		return ordering.ErrStoreClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case tx := <-r.tx:
		b.use(ctx, r, tx, do)
		return <-r.result
	case err := <-r.result:
		return err
	case <-ctx.Done():
		if r.taken.CompareAndSwap(false, true) {
			return context.Cause(ctx)
		}
	case <-b.done:
		if r.taken.CompareAndSwap(false, true) {
			return ordering.ErrStoreClosed
		}
	}
	// The writer was quicker.
	select {
	case tx := <-r.tx:
		b.use(ctx, r, tx, do)
		return <-r.result
	case err := <-r.result:
		return err
	}
}

// errUnwound is what the writer is told of one that panicked or exited; its
// caller never sees it.
var errUnwound = errors.New("sqlstore: unwound")

// use runs do with the writer's transaction and gives that back, whatever
// happens. An interrupted statement would undo the whole transaction, so
// statements run to their ends.
func (b *sqlite) use(ctx context.Context, r *request, tx *sql.Tx, do func(ctx context.Context, tx *sql.Tx) error) {
	err := errUnwound
	defer func() { r.used <- err }()
	if err = context.Cause(ctx); err != nil {
		return
	}
	err = errUnwound
	err = do(context.WithoutCancel(ctx), tx)
}

// position implements backend.
func (b *sqlite) position(ctx context.Context, tx *sql.Tx, c *commit) (bool, error) {
	for i := range c.fences {
		if c.fences[i] != b.token {
			return false, nil
		}
	}
	for i, stream := range c.streams {
		var result sql.Result
		var err error
		if n := c.numbers[i]; n == 1 {
			result, err = tx.StmtContext(ctx, b.first).ExecContext(ctx, stream)
		} else {
			result, err = tx.StmtContext(ctx, b.next).ExecContext(ctx, n, stream)
		}
		if err != nil {
			return false, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return false, err
		}
		if n == 0 && i == 0 {
			return false, nil
		}
		if n == 0 {
			return false, b.restart(ctx, tx, c, i)
		}
	}
	_, err := tx.StmtContext(ctx, b.job).ExecContext(ctx, jobArgs(c.JobState)...)
	return err == nil, err
}

// restart undoes what was done of a commit for the first n streams.
func (b *sqlite) restart(ctx context.Context, tx *sql.Tx, c *commit, n int) error {
	for i := range n {
		if _, err := tx.ExecContext(ctx, `UPDATE ordering_streams SET last = last - 1 WHERE stream = $1`, c.streams[i]); err != nil {
			return err
		}
	}
	return nil
}

// lock implements backend: the only writer has all rows to itself.
func (b *sqlite) lock(ctx context.Context, tx *sql.Tx, streams []string) ([]row, error) {
	return b.rows(ctx, tx, streams)
}

// lockParking implements backend: likewise.
func (b *sqlite) lockParking(context.Context, *sql.Tx, string, []ordering.Position) error { return nil }

// acquire implements backend. It only reads, since a write would have to wait
// for the disk: all streams are this session's.
func (b *sqlite) acquire(ctx context.Context, streams []string) ([]row, error) {
	return b.rows(ctx, b.reads, streams)
}

func (b *sqlite) rows(ctx context.Context, db queryer, streams []string) ([]row, error) {
	rows := make([]row, len(streams))
	index := make(map[string]int, len(streams))
	for i, stream := range streams {
		rows[i] = row{stream: stream, fence: b.token}
		index[stream] = i
	}
	for len(streams) > 0 {
		part := streams[:min(len(streams), chunk)]
		streams = streams[len(part):]
		err := each(ctx, db, func(scan func(...any) error) error {
			var stream string
			var r row
			if err := scan(&stream, &r.last, &r.spans, &r.ended, &r.parking, &r.closedAt); err != nil {
				return err
			}
			r.stream, r.fence = stream, b.token
			rows[index[stream]] = r
			return nil
		}, `SELECT stream, last, spans, ended, parking, closed_at FROM ordering_streams WHERE stream `+among(len(part), 0), anys(part)...)
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func (b *sqlite) fences(_ row, fence int64) bool { return fence == b.token }

func (b *sqlite) writes() *sql.DB { return b.db }

func (b *sqlite) waiting() int { return len(b.queue) }

func (b *sqlite) close() error {
	close(b.stop)
	<-b.done
	return b.db.Close()
}
