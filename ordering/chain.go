package ordering

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// chain is the events of one call of Config.Together whose handlers were called.
type chain[T any] struct{ items []*item[T] }

type chainKey struct{}

// chain returns the chain that a handler's context belongs to, or nil.
func (s *Sequencer[T]) chain(ctx context.Context) *chain[T] {
	if s.cfg.Together == nil {
		return nil
	}
	c, _ := ctx.Value(chainKey{}).(*chain[T])
	return c
}

// together runs a chain of the dispatcher. If it is undone, its events are as they
// were before, except that the store may have been asked to commit them, so that it
// is asked about them before their handlers are called again.
func (s *Sequencer[T]) together(ctx context.Context, run func(context.Context) error) (err error) {
	if s.caution != nil {
		if _, err := s.caution.enter(ctx, s.accepting); err != nil {
			return err
		}
		defer s.caution.leave(beside)
	}
	c := &chain[T]{}
	committed := false
	defer func() { // whatever has ended it
		for _, it := range c.items {
			if committed {
				it.Outcome = core.Applied
			} else {
				it.undo()
			}
		}
	}()
	failed := errors.New("ordering: Together has not called its function")
	err = s.cfg.Together(ctx, func(ctx context.Context) error {
		failed = run(context.WithValue(ctx, chainKey{}, c))
		return failed
	})
	if err == nil {
		err = failed // which Together must not hide: the dispatcher undoes the chain
	}
	committed = err == nil
	return err
}

// chained is the attempt at a job in a chain. Whatever is not usual is left for an
// attempt by itself.
func (s *Sequencer[T]) chained(ctx context.Context, j Job[T], c *chain[T]) error {
	it := j.item
	if it.read != nil || it.bad != nil || it.recalled.Load() || s.stopped.Load() || s.caution != nil && s.isSuspect(it) {
		return dispatcher.ErrAlone
	}
	if j.Event.IsCommand() {
		if f, _, err := s.look(ctx, it); err != nil || f.never != nil || f.isDone() {
			return dispatcher.ErrAlone
		}
	}
	c.items = append(c.items, it)
	err := s.call(ctx, j)
	if errors.Is(err, dispatcher.ErrAlone) { // the handler's: the chain goes on to its commit without the event
		c.items = c.items[:len(c.items)-1]
		it.undo()
		return err
	}
	if err == nil && !it.committed {
		err = s.commitApplied(ctx, it)
	}
	return err
}

// undo forgets what an attempt in a chain has done.
func (it *item[T]) undo() {
	it.run.Tries()
	it.attempts--
	it.tries--
	if it.attempts == 0 {
		it.started = time.Time{}
	}
	it.committed, it.reply = false, nil
}
