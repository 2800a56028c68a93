package saga

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/dispatcher"
)

// Reply completes a step that has returned [Wait], by [Step].OnReply with the body; that
// is durable when Reply returns nil. A reply that comes before the step waits is kept
// until it does.
//
// The same reply again does nothing, whatever has become of the run, so a source may
// redeliver it. The error wraps [ErrReplied] for another reply to a step that has
// accepted one, [ErrNotAwaiting] for a step that takes none any more, [ErrNoRun], or an
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
		case s.Replied != nil:
			return s.sameReply(body)
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

// sameReply returns an error unless the body is that of the reply that was accepted.
func (s *stepRecord) sameReply(body []byte) error {
	if bytes.Equal(s.Replied, hashOf(body)) {
		return nil
	}
	return ErrReplied
}

// lateReply returns the error for a reply to a run that has ended: none, if it is the one
// that was accepted.
func (c *Coordinator) lateReply(ctx context.Context, id, step string, body []byte, ended error) error {
	r, err := c.read(ctx, id)
	if err != nil {
		return err
	}
	for _, s := range r.rec.Steps {
		if s.Name == step && s.Replied != nil {
			return s.sameReply(body)
		}
	}
	return ended
}

// takeReply gives a reply to a step that awaits it. The run is locked.
func (c *Coordinator) takeReply(ctx context.Context, a *active, i int, body []byte, patient bool) error {
	s := a.def.steps[i]
	call := Call{Saga: a.row.id, Step: s.name, Attempt: a.row.rec.Steps[i].Failed + 1}
	err := c.commit(ctx, a, commitment{in: input{kind: completed, step: i, reply: hashOf(body)}, limit: s.timeout, patient: patient,
		change: func(ctx context.Context, tx *sql.Tx, state []byte) ([]byte, error) {
			return s.onReply(ctx, tx, call, state, body)
		}})
	if !dispatcher.IsPermanent(err) {
		return err
	}
	return c.commit(ctx, a, commitment{in: input{kind: failed, step: i, known: true, final: true, err: text(err.Error()), reply: hashOf(body)}, patient: patient})
}
