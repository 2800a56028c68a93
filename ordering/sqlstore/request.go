package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
)

// step is what the store itself does in a transaction.
type step func(ctx context.Context, tx *transaction) error

// transaction is one of the store's own.
type transaction struct{ *sql.Tx }

// request is what a caller wants to have written on SQLite. But for withdrawing
// it while it waits, and for his turns, he leaves it alone until done is closed.
type request struct {
	ctx     context.Context
	own     time.Duration // until the end of ctx, when it came; 0 if that has none
	do      step
	apply   effect                 // or nil
	outside func(db *sql.DB) error // instead of both: no transaction of the writer's
	alone   bool                   // shares its transaction with nobody
	turns   chan *turn
	err     error // of do, of the effect, or of the transaction
	done    chan struct{}
}

func newRequest(ctx context.Context, do step, apply effect) *request {
	r := &request{ctx: ctx, do: do, apply: apply, done: make(chan struct{})}
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

// run runs the effect. If it ends the goroutine the writer is told so.
func (t *turn) run(apply effect) {
	err := error(&effectError{dispatcher.ErrGoexit})
	defer func() { t.ended <- err }()
	err = apply.run(t.ctx, t.tx)
}

// effectTime is how long an effect may take if nobody says otherwise.
const effectTime = 30 * time.Second

// ErrTooLong is wrapped by the error of an effect that took longer than it may,
// see [Store.LimitEffects]. What it wrote is undone.
var ErrTooLong = errors.New("sqlstore: the effect took too long")

// duration is one that may be changed at any time; 0 is effectTime.
type duration struct{ n atomic.Int64 }

func (d *duration) get() time.Duration {
	if n := d.n.Load(); n != 0 {
		return time.Duration(n)
	}
	return effectTime
}

// ended is why the context of an effect has ended. The dispatcher says so itself
// of its own.
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

// LimitEffects sets how long an effect of [Store.Do] or [Store.InTx] may take,
// 30 s by default; the context that it is called with ends then. On SQLite
// nobody else can write meanwhile, and on PostgreSQL it keeps a connection and
// locks. The time begins when the effect does, and is less if the attempt's is,
// by [dispatcher.Config].Timeout.
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

// time returns the context of the request's effect, whose turn it is. It ends
// with the caller's. But if that is the time of the attempt, it begins now: the
// effects that were waited for have not used it up.
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
