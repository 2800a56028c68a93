package saga

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/dispatcher"
)

// Reply completes a step that has returned [Wait], by [Step].OnReply with the body; that
// is durable when Reply returns nil. A reply that comes before the step waits is kept
// until it does; if the run turns back before that, the reply is dropped, which is logged and
// counted.
//
// The same reply again does nothing, whatever has become of the run, so a source may
// redeliver it. Replies are told apart by their bodies: where a step takes several, two
// that mean different things must differ. The error wraps [ErrReplied] for another reply to
// a step that has accepted one, [ErrNotAwaiting] for a step that takes none any more, [ErrNoRun], or an
// [*EndedError]; or it is one of OnReply that is not permanent, of ctx, of the store, or of
// [Coordinator.Err]: then the reply is not accepted, and may be given again.
func (c *Coordinator) Reply(ctx context.Context, id, step string, body []byte) error {
	if err := c.reply(ctx, id, step, body); err != nil {
		return fmt.Errorf("saga: reply to step %.80q of run %.80q: %w", step, id, err)
	}
	return nil
}

func (c *Coordinator) reply(ctx context.Context, id, step string, body []byte) error {
	a, err := c.find(ctx, id)
	if errors.As(err, new(*EndedError)) {
		return c.lateReply(ctx, id, step, body, err)
	}
	if err != nil {
		return err
	}
	if err := a.lock(ctx); err != nil {
		return err
	}
	defer a.unlock()
	i := a.def.find(step)
	if i < 0 {
		return fmt.Errorf("%v has no such step", a.def)
	}
	for {
		if err := c.Err(); err != nil {
			return err
		}
		s := &a.row.rec.Steps[i]
		switch {
		case s.hasReply(body):
			c.repeated.Add(1)
			c.cfg.Logger.Info("saga: a reply that the step has taken before does nothing", "saga", id, "step", step)
			return nil
		case s.Replied != nil:
			return ErrReplied
		case s.Status == Awaiting:
			err = c.takeReply(ctx, a, i, body, false)
		default:
			err = c.commit(ctx, a, commitment{in: input{kind: early, step: i, reply: append([]byte{}, body...)}})
		}
		if err != errChanged {
			return err
		}
	}
}

// lateReply returns the error for a reply to a run that has ended: none, if it is the one
// that was accepted.
func (c *Coordinator) lateReply(ctx context.Context, id, step string, body []byte, ended error) error {
	r, err := c.read(ctx, id)
	if err != nil {
		return err
	}
	for _, s := range r.rec.Steps {
		switch {
		case s.Name != step:
		case s.hasReply(body):
			c.repeated.Add(1)
			return nil
		case s.Replied != nil:
			return ErrReplied
		}
	}
	return ended
}

// takeReply gives a reply to a step that awaits it. The run is locked.
func (c *Coordinator) takeReply(ctx context.Context, a *active, i int, body []byte, patient bool) error {
	s := a.def.steps[i]
	call := a.call(i)
	err := c.commit(ctx, a, commitment{in: input{kind: completed, step: i, reply: hashOf(body)}, limit: s.timeout, patient: patient,
		change: func(ctx context.Context, tx *sql.Tx, state []byte) ([]byte, error) {
			return s.onReply(ctx, tx, call, state, body)
		}})
	var own ownError
	switch {
	case errors.As(err, &own): // nobody has refused anything
		return own
	case !dispatcher.IsPermanent(err):
		return err
	}
	return c.commit(ctx, a, commitment{in: input{kind: failed, step: i, known: true, final: true, err: text(err.Error()), reply: hashOf(body)}, patient: patient})
}
