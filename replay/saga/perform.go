package saga

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
)

// serve is the handler of the message of a step: it does what is due, until there is
// something to wait for or the step has ended.
func (c *Coordinator) serve(ctx context.Context, l *live) error {
	a := l.run
	if a.lock(c.open) != nil {
		return nil
	}
	defer a.unlock()
	for c.open.Err() == nil {
		var wait time.Duration // negative for no wait
		due := a.def.plan.due(&a.row.rec, l.step)
		if due == nothing || l.keyless && (due == act || due == takeBack) {
			a.def.steps[l.step].calls.leave(l, false)
			c.alone.leave(l, false)
			a.remove(l)
			if due != nothing { // with keys that may be derived by now
				c.beginStep(a, l.step)
			}
			return nil
		}
		switch due {
		case await:
			wait = c.await(ctx, l)
		case act:
			wait = c.attempt(ctx, l, false)
		case takeBack:
			wait = c.attempt(ctx, l, true)
		case settle:
			wait = c.settle(ctx, l)
		}
		if wait >= 0 {
			return l.held.hold(ctx, wait)
		}
	}
	return nil
}

// goesOn is the wait of a step for which there is something else to do.
const goesOn = -1

// attempt does a step, or undoes it.
func (c *Coordinator) attempt(ctx context.Context, l *live, undoes bool) (wait time.Duration) {
	a, s := l.run, l.run.def.steps[l.step]
	if l.undoes != undoes {
		l.undoes, l.notBefore = undoes, time.Time{}
	}
	if wait := time.Until(l.notBefore); wait > 0 {
		return wait
	}
	if l.keyErr != nil {
		l.keyless = true
		return c.failed(ctx, l, undoes, dispatcher.Permanent(ownError{l.keyErr}))
	}
	if wait, may := c.mark(ctx, l); !may {
		return wait
	}
	defer c.unmark(l)
	if !undoes && l.ask && a.row.rec.Steps[l.step].Early == nil { // who has replied has done it
		if found, asked := c.ask(ctx, l); asked {
			return goesOn
		} else if found == Happened {
			return c.done(ctx, l, commitment{in: input{kind: completed, step: l.step}})
		}
	}
	if !s.calls.enter(l) {
		return 0
	}
	defer s.calls.leave(l, true)
	do, kind := s.do, completed
	if undoes {
		do, kind = s.undo, undone
	}
	do = c.measured(a.def, do)
	call := a.call(l.step)
	call.Undo = undoes
	if s.inTx {
		return c.done(ctx, l, commitment{in: input{kind: kind, step: l.step}, limit: s.timeout, change: func(ctx context.Context, tx *sql.Tx, state []byte) ([]byte, error) {
			return checked(undoes)(do(ctx, tx, call, state))
		}})
	}
	base := a.row.state
	var after []byte
	l.unsure = l.unsure || !undoes // until what has become of it is durable
	err := c.outside(ctx, l, !undoes, func(ctx context.Context) (err error) {
		after, err = checked(undoes)(do(ctx, nil, call, base))
		return err
	})
	if err != nil && !isWait(err) {
		return c.failed(ctx, l, undoes, err)
	}
	return c.done(ctx, l, commitment{in: input{kind: kind, step: l.step}, change: func(_ context.Context, _ *sql.Tx, state []byte) ([]byte, error) {
		return merge(base, after, state), err
	}})
}

// errWaits is the error of an undo that returns Wait.
var errWaits = errors.New("saga: an undo cannot wait for a reply: return nil when it is done, or an error to have it called again")

// checked converts the result of an action: an undo must not wait.
func checked(undoes bool) func(state []byte, err error) ([]byte, error) {
	return func(state []byte, err error) ([]byte, error) {
		if undoes && isWait(err) {
			return nil, errWaits
		}
		return state, err
	}
}

// outside calls a function without the lock of the run, within the step's time limit. If
// it may be canceled, it is when the run is compensated.
func (c *Coordinator) outside(ctx context.Context, l *live, cancelable bool, call func(ctx context.Context) error) error {
	a := l.run
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, a.def.steps[l.step].timeout, dispatcher.ErrTimeout)
	defer stop()
	if cancelable {
		l.cancel = cancel
	}
	a.unlock()
	err := call(ctx)
	a.has <- struct{}{} // whoever has it ends: commits do not go on waiting once the coordinator is closed
	l.cancel = nil
	if err != nil && !isWait(err) && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// done makes the success of an attempt durable, in whose transaction it may be done.
func (c *Coordinator) done(ctx context.Context, l *live, m commitment) (wait time.Duration) {
	m.patient = true
	err := c.commit(ctx, l.run, m)
	switch {
	case err == nil:
		l.unsure, l.ask, l.marked, l.notBefore = false, false, false, time.Time{}
	case err == errChanged || c.open.Err() != nil:
	case m.limit == 0: // it was done, and nothing but the store keeps it from being durable
		c.cfg.Logger.Error("saga: the outcome of a step cannot be recorded", "saga", l.run.row.id, "step", l.run.def.steps[l.step].name, "err", err)
		l.unsure, l.ask = true, true
		return c.later(l, 1)
	default:
		return c.failed(ctx, l, m.in.kind == undone, err)
	}
	return goesOn
}

// failed makes the failure of an attempt durable.
func (c *Coordinator) failed(ctx context.Context, l *live, undoes bool, cause error) (wait time.Duration) {
	a, s := l.run, l.run.def.steps[l.step]
	permanent := dispatcher.IsPermanent(cause)
	attempts := a.row.rec.Steps[l.step].Failed + 1
	in := input{kind: undoFailed, step: l.step, err: text(cause.Error()), final: permanent, ended: l.marked}
	if !undoes {
		refused := permanent && !errors.As(cause, new(ownError))
		in.kind, in.known = failed, refused && !s.inTx || !l.unsure
		in.final = permanent || s.inTx && attempts >= s.maxAttempts
		l.unsure, l.ask = !in.known, !in.known
	}
	c.warn("saga: an attempt has failed", "saga", a.row.id, "step", s.name, "undo", undoes, "attempt", attempts, "err", cause)
	l.notBefore = time.Now().Add(s.backoff.Wait(attempts))
	err := c.commit(ctx, a, commitment{in: in, patient: true})
	if err == nil {
		l.marked = false
	}
	over := isIn(err, ErrNotAwaiting) || errors.As(err, new(*EndedError)) // nobody asks any more
	if err != nil && err != errChanged && c.open.Err() == nil && !over {
		c.cfg.Logger.Error("saga: the failure of a step cannot be recorded", "saga", a.row.id, "step", s.name, "err", err)
		return c.later(l, attempts)
	}
	return goesOn
}

// later has the step looked at again after a pause.
func (c *Coordinator) later(l *live, failed int) time.Duration {
	wait := c.cfg.StoreBackoff.Wait(failed)
	l.notBefore = time.Now().Add(wait)
	return wait
}

// ask asks what became of a step. It reports whether there is something else to do now,
// since the run has changed meanwhile.
func (c *Coordinator) ask(ctx context.Context, l *live) (found Found, changed bool) {
	a, s := l.run, l.run.def.steps[l.step]
	l.ask = false
	if s.find == nil {
		return Unsure, false
	}
	was := a.def.plan.due(&a.row.rec, l.step)
	call := a.call(l.step)
	state := a.row.state
	err := c.outside(ctx, l, false, func(ctx context.Context) (err error) {
		found, err = s.find(ctx, call, state)
		return err
	})
	if err != nil {
		found = Unsure
		c.warn("saga: what became of a step could not be found out", "saga", a.row.id, "step", s.name, "err", err)
	}
	if found == NotHappened {
		l.unsure = false
	}
	return found, found != Happened && a.def.plan.due(&a.row.rec, l.step) != was
}

// settle finds out what became of a step that is not to be attempted any more.
func (c *Coordinator) settle(ctx context.Context, l *live) (wait time.Duration) {
	if l.unsure && l.ask {
		if wait, may := c.mark(ctx, l); !may {
			return wait
		}
		defer c.unmark(l)
		found, changed := c.ask(ctx, l)
		switch {
		case found == Happened:
			return c.done(ctx, l, commitment{in: input{kind: completed, step: l.step}})
		case changed:
			return goesOn
		}
	}
	in := input{kind: gaveUp, step: l.step, known: !l.unsure, err: l.run.row.rec.Steps[l.step].Error}
	return c.done(ctx, l, commitment{in: in})
}

// errNoReply is the failure of a step whose reply has not come in time.
var errNoReply = errors.New("saga: no reply within ReplyTimeout")

// await waits for the reply of a step, which may have come already.
func (c *Coordinator) await(ctx context.Context, l *live) (wait time.Duration) {
	a, s := l.run, l.run.def.steps[l.step]
	l.unsure = true // what was asked for may be done
	if early := a.row.rec.Steps[l.step].Early; early != nil {
		err := c.takeReply(ctx, a, l.step, early, true)
		switch {
		case err == nil || err == errChanged || c.open.Err() != nil:
			return goesOn
		case isStoreError(err) || errors.Is(err, ordering.ErrFenced):
			return c.later(l, 1)
		}
		return c.failed(ctx, l, false, err)
	}
	if s.replyTimeout == 0 {
		return 0
	}
	asked := fromMicros(a.row.rec.Steps[l.step].AskedAt)
	if asked.IsZero() { // by a version that did not record it
		asked = a.row.changed
	}
	if left := time.Until(asked.Add(s.replyTimeout)); left > 0 {
		return left
	}
	return c.failed(ctx, l, false, errNoReply)
}
