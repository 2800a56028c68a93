package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering"
)

// writer makes the transactions of an SQLite database, which has one writer at
// a time. Flushing to disk costs the same for one request as for many, so they
// share transactions (group commit): a goroutine, which lives while there are
// requests, writes them one after the other and commits when none is left.
// While it waits for the disk, the next ones gather. The numbers and job states of all
// of them, and the rows of [Store.DoRows], are staged, and written by a few statements
// when nobody asks for more; see [staged].
//
// An effect runs on the goroutine of its caller, which borrows the transaction.
// If it has not returned when its context has ended, its part is undone and the
// writer goes on without it, so one that hangs does not block the others.
//
// If the transaction is undone, its requests are run again: together if
// an effect has failed, see [shared], and otherwise each in a transaction of its
// own. Then no other request can undo it, and a failed commit is its own.
//
// Nobody is told what rests on writes that are not committed yet: neither a success, nor
// an error behind other requests, that something is there already for example. So both
// are told after the commit.
type writer struct {
	shared   *shared
	token    int64     // of this session; a newer one in the database has it
	group    group     // the goroutine's
	session  *session  // likewise
	limit    *duration // of an effect
	measured *measured
	commits  atomic.Int64
	serving  sync.WaitGroup

	mu struct {
		sync.Mutex
		busy    bool // the goroutine is running
		waiting []*request
	}
}

// group is the requests of one transaction.
type group struct {
	begun   bool
	alone   bool       // nobody joins
	size    int        // requests so far
	events  int        // of those that were written
	written []*request // without an error
	failed  []*request // with an error that may rest on what those have written
	err     error      // of writing what was staged; then it must be undone
}

// maxGroup bounds the requests in one transaction, and so the wait of the first
// for the last.
const maxGroup = 512

// newWriter begins a session, which ends the session of the previous owner of
// the database.
func newWriter(ctx context.Context, s *shared, limit *duration, m *measured) (*writer, error) {
	w := &writer{shared: s, limit: limit, measured: m, session: newSession()}
	err := s.alone(func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `UPDATE ordering_session SET token = token + 1 RETURNING token`).Scan(&w.token)
	})
	return w, err
}

// write runs do in a transaction, and returns when that is committed.
func (w *writer) write(ctx context.Context, do step) error {
	return w.await(newRequest(ctx, changes, do, nil))
}

// alone runs do when its turn comes, with unrestricted use of the connection.
func (w *writer) alone(ctx context.Context, do func(db *sql.DB) error) error {
	r := newRequest(ctx, changes, nil, nil)
	r.outside, r.alone = do, true
	return w.await(r)
}

// await queues a request and returns when it is committed. Its effect runs
// here.
func (w *writer) await(r *request) error {
	w.mu.Lock()
	w.mu.waiting = append(w.mu.waiting, r)
	if !w.mu.busy {
		w.mu.busy = true
		w.serving.Go(w.serve)
	}
	w.mu.Unlock()
	over := r.ctx.Done()
	for {
		select {
		case t := <-r.turns:
			t.run(r.apply)
		case <-r.done:
			return r.err
		case <-over:
			// The wait for the turn does not count as time of the attempt,
			// which begins with the turn; see request.time.
			if over = nil; context.Cause(r.ctx) != dispatcher.ErrTimeout && w.withdraw(r) {
				return r.ctx.Err()
			}
		}
	}
}

// withdraw removes a request that is not being written yet, and reports whether
// it could.
func (w *writer) withdraw(r *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.mu.waiting, r)
	if i >= 0 {
		w.mu.waiting = slices.Delete(w.mu.waiting, i, i+1)
	}
	return i >= 0
}

// serve is the writer's goroutine.
func (w *writer) serve() {
	for r := w.next(); r != nil; r = w.next() {
		if r.outside != nil {
			r.end(w.shared.alone(r.outside))
			w.session.forget()
			continue
		}
		w.serveOne(r)
	}
}

// next returns the next request. If none may join the group, the group is ended
// first. It returns nil when no request is left.
func (w *writer) next() *request {
	for g := &w.group; g.begun && !g.alone && g.size < maxGroup && g.err == nil; {
		if r := w.take(true); r != nil {
			return r
		}
		// Others may be about to ask: what is staged can be written meanwhile.
		if w.session.empty {
			runtime.Gosched()
			if r := w.take(true); r != nil {
				return r
			}
			break
		}
		_ = w.flush() // see group.err
	}
	w.commit()
	return w.take(false)
}

func (w *writer) take(joins bool) *request {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.mu.waiting) == 0 || joins && w.mu.waiting[0].alone {
		w.mu.busy = w.mu.busy && joins
		return nil
	}
	r := w.mu.waiting[0]
	w.mu.waiting = slices.Delete(w.mu.waiting, 0, 1)
	return r
}

// serveOne writes a request into the group.
func (w *writer) serveOne(r *request) {
	g := &w.group
	g.size++
	g.alone = r.alone
	if r.kind != commits && w.flush() != nil {
		g.written = append(g.written, r) // like those before, which are the cause
		w.abandon(true)
		return
	}
	if r.kind == changes {
		w.session.forget()
	}
	tx, err := w.begin()
	if errors.Is(err, errLost) {
		g.written = append(g.written, r) // like those before
		w.abandon(true)
		return
	}
	if err != nil {
		r.end(err)
		w.abandon(true)
		return
	}
	part := w.session.stage()
	returned := true
	if err = r.do(context.WithoutCancel(r.ctx), &transaction{Tx: tx, staged: part}); err == nil && r.apply != nil {
		returned, err = w.lend(r, tx)
	}
	if w.shared.again() {
		_ = w.shared.undo(tx)
		g.written = append(g.written, r)
		w.abandon(false)
		return
	}
	var lost error
	if err != nil {
		lost = w.shared.undo(tx)
	} else if lost = w.shared.keep(tx); lost == nil {
		if r.kind == changes {
			w.session.forget()
		} else {
			w.session.add(part)
		}
		g.events += part.events
		g.written = append(g.written, r)
		return
	} else if err = lost; r.apply != nil {
		err = &effectError{undone(lost)}
	}
	if returned && len(g.written) > 0 {
		r.err = err
		r.alone = r.alone || lost != nil // or it would undo the others again, without end
		g.failed = append(g.failed, r)
	} else {
		r.end(err)
	}
	switch lost {
	case nil, ErrEnded:
	case errWhole:
		w.abandon(false)
	default:
		w.abandon(true)
	}
}

// undone converts the error of keep to one of the effect.
func undone(lost error) error {
	if lost == ErrEnded {
		return lost
	}
	return fmt.Errorf("%w: %w", ErrEnded, lost)
}

// dataVersion asks for a number that changes when another connection commits.
const dataVersion = `PRAGMA data_version`

// begin begins the part of a request, and with the first one the group, if the
// session has not ended.
func (w *writer) begin() (*sql.Tx, error) {
	first := !w.group.begun
	tx, err := w.shared.begin(first)
	if err != nil || !first {
		return tx, err
	}
	w.group.begun = true
	var token, version int64
	own := &transaction{Tx: tx, staged: w.session.stage()}
	ctx := context.Background()
	err = each(ctx, own, func(scan func(...any) error) error { return scan(&token) }, `SELECT token FROM ordering_session`)
	if err == nil && token != w.token {
		err = fmt.Errorf("%w: another program has opened the database", ordering.ErrFenced)
	}
	if err == nil {
		err = each(ctx, own, func(scan func(...any) error) error { return scan(&version) }, dataVersion)
	}
	if err != nil {
		return nil, errors.Join(err, w.shared.undo(tx))
	}
	w.session.is(version)
	return tx, nil
}

// lend lets the caller run its effect. returned reports whether that has returned: if not,
// it must not be run again.
func (w *writer) lend(r *request, tx *sql.Tx) (returned bool, err error) {
	ctx, cancel := r.time(w.limit.get())
	defer cancel()
	defer w.shared.lend(ctx)()
	t := &turn{ctx: ctx, tx: tx, ended: make(chan error, 1)}
	r.turns <- t
	select {
	case err := <-t.ended:
		return !errors.Is(err, contain.ErrGoexit), err
	case <-ctx.Done():
		return false, &effectError{ended(ctx)}
	}
}

// commit commits the group, if a request was written. Otherwise no caller
// depends on it.
func (w *writer) commit() {
	g := &w.group
	if len(g.written) == 0 {
		w.abandon(true)
		return
	}
	committing := w.measured.begin()
	err := w.flush()
	if err == nil {
		err = w.shared.commit()
	}
	switch {
	case err == nil:
		w.commits.Add(1)
		w.measured.end(committing, g.events)
	case len(g.written) > 1:
		w.abandon(true)
		return
	default:
		w.undo()
		if sqldb.IsConstraint(err) {
			err = &effectError{err}
		}
		w.runAgain(g.failed)
		g.failed = nil
	}
	for _, r := range g.written {
		r.end(err)
	}
	for _, r := range g.failed {
		r.end(r.err)
	}
	w.forget()
}

// flush writes what is staged. After an error, which is returned from then on, the
// transaction must be undone.
func (w *writer) flush() error {
	if g := &w.group; !w.session.empty && g.err == nil {
		g.err = w.writeStaged()
	}
	return w.group.err
}

func (w *writer) writeStaged() error {
	tx, err := w.shared.begin(false)
	if err != nil {
		return err
	}
	if err := w.session.write(context.Background(), &transaction{Tx: tx, staged: w.session.stage()}); err != nil {
		return errors.Join(err, w.shared.undo(tx))
	}
	return w.shared.keep(tx)
}

// abandon undoes the group. Its requests are run again, alone if one of them may be
// the cause.
func (w *writer) abandon(alone bool) {
	g := &w.group
	w.undo()
	again := slices.Concat(g.written, g.failed)
	for _, r := range again {
		r.alone = r.alone || alone
	}
	w.runAgain(again)
	w.forget()
}

// runAgain makes requests the next ones.
func (w *writer) runAgain(requests []*request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.waiting = slices.Insert(w.mu.waiting, 0, requests...)
}

// undo undoes the transaction, if it has begun.
func (w *writer) undo() {
	if w.group.begun {
		w.shared.rollback()
		w.session.forget()
	}
}

func (w *writer) forget() {
	clear(w.group.written)
	clear(w.group.failed)
	w.group = group{written: w.group.written[:0], failed: w.group.failed[:0]}
}

func (w *writer) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mu.waiting)
}

func (w *writer) close() error {
	w.serving.Wait()
	return w.shared.db.Close()
}
