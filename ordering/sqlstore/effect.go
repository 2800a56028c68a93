package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
)

// effect writes the effect of an event in a transaction.
type effect func(ctx context.Context, tx *sql.Tx) error

// run calls an effect. Its error is an *effectError, also for a panic.
func (e effect) run(ctx context.Context, tx *sql.Tx) (err error) {
	defer func() {
		if err != nil {
			err = &effectError{err}
		}
	}()
	defer contain.Recover(&err)
	if err = e(ctx, tx); err == nil {
		return nil
	}
	if cause := ended(ctx); errors.Is(cause, ErrTooLong) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// effectError is an error of the caller's effect, or one of the database that the
// effect has caused.
type effectError struct{ error }

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *effectError) Unwrap() error { return e.error }

// effectContext is the context of an effect, by which the store recognises
// nested calls.
type effectContext struct {
	context.Context
	store   *Store
	message dispatcher.Info // whose effect it is; zero if it is none of a dispatcher's
}

func (s *Store) effectContext(ctx context.Context) effectContext {
	message, _ := dispatcher.InfoFrom(ctx)
	return effectContext{ctx, s, message}
}

// Err is that of the caller's context, which may have a deadline.
func (c effectContext) Err() error {
	err := c.Context.Err()
	if err != nil && context.Cause(c.Context) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return err
}

type effectKey struct{ store *Store }

func (c effectContext) Value(key any) any {
	if key == (effectKey{c.store}) {
		return c.message
	}
	return c.Context.Value(key)
}

// nested returns an error if ctx is the context of an effect of the store. It is not if it is
// that of another message, which has its values because the effect has offered that.
func (s *Store) nested(ctx context.Context) error {
	of := ctx.Value(effectKey{s})
	if message, _ := dispatcher.InfoFrom(ctx); of != message {
		return nil
	}
	return fmt.Errorf("sqlstore: an effect must not call its store, which may wait for it for ever: use the effect's transaction: %w", dispatcher.ErrNested)
}
