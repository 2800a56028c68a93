package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/interlock-go/interlock/ordering"
)

// writer makes the transactions of an SQLite database, which has one writer at
// a time. To flush one to the disk costs the same for one request as for many,
// so they share transactions: whoever has the turn writes, hands the turn and
// the transaction to the next who waits, and the last one commits for all.
// While he waits for the disk the next ones gather.
type writer struct {
	db      *sql.DB // of one connection
	token   int64   // of this session; a newer one in the database has it
	commits atomic.Int64

	session, savepoint, release, undo, first, next, job *sql.Stmt

	mu struct {
		sync.Mutex
		busy    bool          // someone has the turn
		waiting []chan *group // those who wait for it, each with room for it
	}
}

// group is the requests of one transaction. It belongs to whoever has the
// turn, until done is closed.
type group struct {
	tx      *sql.Tx // nil before the first request
	size    int     // requests so far
	written int     // of which had no error
	err     error   // of the transaction itself
	done    chan struct{}
}

// maxGroup bounds what is written in one transaction, and so how long the
// first waits for the last.
const maxGroup = 512

// newWriter begins a session: that of whoever had the database is over.
func newWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	w := &writer{db: db}
	err := db.QueryRowContext(ctx, `UPDATE ordering_session SET token = token + 1 RETURNING token`).Scan(&w.token)
	if err != nil {
		return nil, err
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
		if *p.statement, err = db.PrepareContext(ctx, p.text); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// write runs do when it is the caller's turn, and returns when the transaction
// is committed.
func (w *writer) write(ctx context.Context, do func(ctx context.Context, tx *sql.Tx) error) error {
	g, err := w.turn(ctx)
	if err != nil {
		return err
	}
	if err := w.request(ctx, g, do); err != nil {
		return err
	}
	<-g.done
	return g.err
}

// turn waits for the caller's turn. With an error the caller has not got it.
func (w *writer) turn(ctx context.Context) (*group, error) {
	w.mu.Lock()
	if !w.mu.busy {
		w.mu.busy = true
		w.mu.Unlock()
		return newGroup(), nil
	}
	mine := make(chan *group, 1)
	w.mu.waiting = append(w.mu.waiting, mine)
	w.mu.Unlock()
	select {
	case g := <-mine:
		return g, nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	i := slices.Index(w.mu.waiting, mine)
	if i >= 0 {
		w.mu.waiting = slices.Delete(w.mu.waiting, i, i+1)
	}
	w.mu.Unlock()
	if i < 0 { // he was given it just now
		w.handOn(<-mine)
	}
	return nil, ctx.Err()
}

func newGroup() *group { return &group{done: make(chan struct{})} }

// errUnwound stands for the error of a request that panics or exits.
var errUnwound = errors.New("sqlstore: unwound")

// request writes a caller's request and hands the turn on, whatever happens.
// It returns an error of do; what it wrote is undone then. A statement that is
// interrupted would undo the whole transaction, so they run to their ends.
func (w *writer) request(ctx context.Context, g *group, do func(ctx context.Context, tx *sql.Tx) error) (err error) {
	defer w.handOn(g)
	ctx = context.WithoutCancel(ctx)
	if g.tx == nil {
		g.tx, g.err = w.begin(ctx)
	}
	if g.err == nil {
		_, g.err = g.tx.StmtContext(ctx, w.savepoint).ExecContext(ctx)
	}
	if g.size++; g.err != nil {
		return nil
	}
	err = errUnwound
	defer func() {
		if err == nil {
			g.written++
		} else if _, g.err = g.tx.StmtContext(ctx, w.undo).ExecContext(ctx); g.err != nil {
			return
		}
		_, g.err = g.tx.StmtContext(ctx, w.release).ExecContext(ctx)
	}()
	return do(ctx, g.tx)
}

// begin begins a transaction, if the session is not over.
func (w *writer) begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	var token int64
	err = tx.StmtContext(ctx, w.session).QueryRowContext(ctx).Scan(&token)
	if err == nil && token != w.token {
		err = fmt.Errorf("%w: another program has opened the database", ordering.ErrFenced)
	}
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}

// handOn gives the turn to the next who waits, with the group, or with a new
// one once that is at its end.
func (w *writer) handOn(g *group) {
	if g.err == nil && g.size < maxGroup && w.give(g) {
		return
	}
	w.end(g)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.busy = w.giveLocked(newGroup())
}

func (w *writer) give(g *group) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.giveLocked(g)
}

func (w *writer) giveLocked(g *group) bool {
	if len(w.mu.waiting) == 0 {
		return false
	}
	w.mu.waiting[0] <- g
	w.mu.waiting = slices.Delete(w.mu.waiting, 0, 1)
	return true
}

// end commits a group, if it has anything to commit.
func (w *writer) end(g *group) {
	defer close(g.done)
	if g.tx == nil {
		return
	}
	if g.err != nil || g.written == 0 {
		_ = g.tx.Rollback() // nobody relies on it
		return
	}
	if g.err = g.tx.Commit(); g.err == nil {
		w.commits.Add(1)
	}
}

func (w *writer) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mu.waiting)
}

func (w *writer) close() error { return w.db.Close() }
