package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
)

// step is the store's own part of a transaction.
type step func(ctx context.Context, tx *transaction) error

// transaction is one of the store's own.
type transaction struct {
	*sql.Tx
	failed error     // within Together, of a call that may have written a part
	chain  *rowChain // within TogetherRows, where there is no transaction yet

	staged *staged // on SQLite; else nil

	// On PostgreSQL; else nil.
	session Session   // of an effect
	commits []*commit // to be written with the COMMIT
}

// ExecContext runs a statement of the store's own.
func (t *transaction) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return t.Tx.ExecContext(t.own(ctx), query, args...)
}

// QueryContext runs a query of the store's own.
func (t *transaction) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return t.Tx.QueryContext(t.own(ctx), query, args...)
}

// own returns the context for a statement of the store's own. On SQLite those are
// short, and a context that can end would cost as much as the statement itself, since a
// goroutine has to wait for its end.
func (t *transaction) own(ctx context.Context) context.Context {
	if t.staged == nil {
		return ctx
	}
	return ownContext{context.WithoutCancel(ctx)}
}

// within returns the transaction for the calls of Store within Together, as a part of
// t.
func (t *transaction) within(tx *sql.Tx) *transaction {
	return &transaction{Tx: tx, session: t.session, staged: t.staged}
}

// ownContext is the context of a statement of the store's own, by which conn tells it
// from one of an effect.
type ownContext struct{ context.Context }

// request is a write to SQLite that a caller asks for. Until done is closed,
// the caller may only withdraw it while it waits, and take its turns.
type request struct {
	ctx     context.Context
	kind    kind
	own     time.Duration // until the end of ctx, when the request came; 0 if ctx has no deadline
	do      step
	apply   effect                 // or nil
	outside func(db *sql.DB) error // instead of both: no transaction of the writer's
	alone   bool                   // shares its transaction with nobody
	turns   chan *turn
	err     error // of do, of the effect, or of the transaction
	done    chan struct{}
}

// kind is what a request does, apart from writing the caller's tables.
type kind uint8

const (
	changes kind = iota // anything: what is staged is written before it, and nothing is known after it
	commits             // stages commits
	nothing             // what is staged is written before it, since it may read that
)

func newRequest(ctx context.Context, kind kind, do step, apply effect) *request {
	r := &request{ctx: ctx, kind: kind, do: do, apply: apply, done: make(chan struct{})}
	if apply != nil {
		r.turns = make(chan *turn, 1)
		r.own = left(ctx)
	}
	return r
}

func (r *request) end(err error) {
	r.err = err
	close(r.done)
}

// turn lends the writer's transaction to an effect.
type turn struct {
	ctx   context.Context
	tx    *sql.Tx
	ended chan error
}

// run runs the effect. If that ends the goroutine, the writer is still
// notified.
func (t *turn) run(apply effect) {
	err := error(&effectError{contain.ErrGoexit})
	defer func() { t.ended <- err }()
	err = apply.run(t.ctx, t.tx)
}

// effectTime is the default time limit of an effect.
const effectTime = 30 * time.Second

// ErrTooLong is wrapped by the error of an effect that exceeded its time limit,
// see [Store.LimitEffects]. It is rolled back.
var ErrTooLong = errors.New("sqlstore: the effect took too long")

// duration is a time limit that may be changed at any time; 0 means effectTime.
type duration struct{ n atomic.Int64 }

func (d *duration) get() time.Duration {
	if n := d.n.Load(); n != 0 {
		return time.Duration(n)
	}
	return effectTime
}

// ended returns why the context of an effect has ended. For a time limit of its own, the
// dispatcher adds the cause itself.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrTooLong) || cause == context.DeadlineExceeded {
		return cause
	}
	return ctx.Err()
}

// context returns one that ends after the duration.
func (d *duration) context(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := d.get()
	return context.WithTimeoutCause(ctx, limit, tooLong(limit))
}

// LimitEffects sets how long an effect of [Store.Do] or [InTx] may take, 30 s
// by default; its context ends then. On SQLite no other write is possible
// during that time, and on PostgreSQL the effect keeps a connection and locks.
// The time begins with the effect, and is shorter if that of the attempt is, by
// [dispatcher.Config].Timeout.
func (s *Store) LimitEffects(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("sqlstore: effects cannot be limited to %v: give a positive time", d)
	}
	s.limit.n.Store(int64(d))
	return nil
}

func tooLong(limit time.Duration) error {
	return fmt.Errorf("%w: more than %v, see Store.LimitEffects", ErrTooLong, limit)
}

// time returns the context of the request's effect when its turn has come. It
// ends with the caller's context. But the time of the attempt begins now: the
// effects before it have not used it up.
func (r *request) time(limit time.Duration) (context.Context, context.CancelFunc) {
	cause := tooLong(limit)
	if r.own == 0 {
		return context.WithTimeoutCause(r.ctx, limit, cause)
	}
	if r.own < limit {
		limit, cause = r.own, dispatcher.ErrTimeout
	}
	base, leave := patient(r.ctx)
	ctx, end := context.WithTimeoutCause(base, limit, cause)
	return ctx, func() { end(); leave() }
}

// patient returns a context that ends with ctx, but not with the time of an
// attempt at a message.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if err := context.Cause(ctx); err != dispatcher.ErrTimeout {
			cancel(err)
		}
	})
	return base, func() { stop(); cancel(nil) }
}

// left is the time until a context ends; 0 if it has no such time.
func left(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(time.Until(end), 1)
}
