package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
)

// writer makes the transactions of an SQLite database, which has one writer at
// a time. To flush one to the disk costs the same for one request as for many,
// so they share transactions: a goroutine, which is there while there are
// requests, writes them one after the other and commits when none is left.
// While it waits for the disk the next ones gather.
type writer struct {
	db         *sql.DB // of one connection
	token      int64   // of this session; a newer one in the database has it
	statements *statements
	group      group // the goroutine's
	commits    atomic.Int64
	serving    sync.WaitGroup

	mu struct {
		sync.Mutex
		busy    bool // the goroutine is there
		waiting []*request
	}
}

// request is what a caller wants to have written. But for withdrawing it while
// it waits, he leaves it alone until done is closed.
type request struct {
	ctx  context.Context // without an end, since an interrupted statement would undo the group
	do   func(ctx context.Context, tx *transaction) error
	err  error // of do, or of the transaction
	done chan struct{}
}

// group is the requests of one transaction.
type group struct {
	tx      *transaction // nil before the first request
	current *request     // is being written
	written []*request   // without an error
	size    int          // requests so far
	err     error        // of the transaction itself
}

// maxGroup bounds what is written in one transaction, and so how long the
// first waits for the last.
const maxGroup = 512

// newWriter begins a session: that of whoever had the database is over.
func newWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	w := &writer{db: db, statements: newStatements()}
	err := db.QueryRowContext(ctx, `UPDATE ordering_session SET token = token + 1 RETURNING token`).Scan(&w.token)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// write has do run in a transaction, and returns when that is committed.
func (w *writer) write(ctx context.Context, do func(ctx context.Context, tx *transaction) error) error {
	r := &request{ctx: context.WithoutCancel(ctx), do: do, done: make(chan struct{})}
	w.mu.Lock()
	w.mu.waiting = append(w.mu.waiting, r)
	if !w.mu.busy {
		w.mu.busy = true
		w.serving.Go(w.serve)
	}
	w.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	if w.withdraw(r) {
		return ctx.Err()
	}
	<-r.done
	return r.err
}

// withdraw takes back a request that is not being written yet.
func (w *writer) withdraw(r *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.mu.waiting, r)
	if i >= 0 {
		w.mu.waiting = slices.Delete(w.mu.waiting, i, i+1)
	}
	return i >= 0
}

// serve is the life of the goroutine. If a request ends it, another goroutine
// goes on where it was.
func (w *writer) serve() {
	ended := false
	defer func() {
		if !ended {
			w.serving.Go(w.serve)
		}
	}()
	if w.group.current != nil {
		w.settle(&effectError{dispatcher.ErrGoexit})
	}
	for w.next() {
		w.settle(w.run())
	}
	ended = true
}

// next takes the next request. If there is none, or the group is at its end,
// that is committed first. It returns false when nobody waits any more.
func (w *writer) next() bool {
	if w.group.err == nil && w.group.size < maxGroup && w.take(false) {
		return true
	}
	w.end()
	return w.take(true)
}

func (w *writer) take(last bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.mu.waiting) == 0 {
		w.mu.busy = !last
		return false
	}
	w.group.current = w.mu.waiting[0]
	w.mu.waiting = slices.Delete(w.mu.waiting, 0, 1)
	w.group.size++
	return true
}

// run writes the current request.
func (w *writer) run() error {
	g := &w.group
	r := g.current
	if g.tx == nil {
		g.err = w.begin(r.ctx)
	}
	if g.err == nil {
		_, g.err = g.tx.ExecContext(r.ctx, `SAVEPOINT one`)
	}
	if g.err != nil {
		return g.err
	}
	return r.do(r.ctx, g.tx)
}

// settle ends the current request, and undoes it for an error.
func (w *writer) settle(err error) {
	g := &w.group
	r := g.current
	g.current = nil
	if g.err == nil && err != nil {
		_, g.err = g.tx.ExecContext(r.ctx, `ROLLBACK TO one`)
	}
	if g.err == nil {
		_, g.err = g.tx.ExecContext(r.ctx, `RELEASE one`)
	}
	if err != nil {
		r.end(err)
	} else {
		g.written = append(g.written, r)
	}
}

func (r *request) end(err error) {
	r.err = err
	close(r.done)
}

// begin begins a transaction, if the session is not over.
func (w *writer) begin(ctx context.Context) error {
	if err := w.statements.renew(ctx, w.db); err != nil {
		return err
	}
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	w.group.tx = &transaction{tx, w.statements}
	var token int64
	err = each(ctx, w.group.tx, func(scan func(...any) error) error { return scan(&token) }, `SELECT token FROM ordering_session`)
	if err == nil && token != w.token {
		err = fmt.Errorf("%w: another program has opened the database", ordering.ErrFenced)
	}
	return err
}

// end commits the group, if there is anything to commit, and begins a new one.
func (w *writer) end() {
	g := &w.group
	switch {
	case g.tx == nil:
	case g.err != nil || len(g.written) == 0:
		_ = g.tx.Rollback() // nobody relies on it
	default:
		if g.err = g.tx.Commit(); g.err == nil {
			w.commits.Add(1)
		}
	}
	for _, r := range g.written {
		r.end(g.err)
	}
	clear(g.written)
	*g = group{written: g.written[:0]}
}

func (w *writer) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mu.waiting)
}

func (w *writer) close() error {
	w.serving.Wait()
	return w.db.Close()
}
