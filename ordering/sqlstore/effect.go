package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/internal/ofcall"
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
	store *Store
}

// Err is that of the caller's context, which may have a deadline.
func (c effectContext) Err() error {
	err := c.Context.Err()
	if err != nil && context.Cause(c.Context) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return err
}

type effectKey struct {
	ofcall.Key // an event that the effect offers runs by itself
	store      *Store
}

func (c effectContext) Value(key any) any {
	if key == (effectKey{store: c.store}) {
		return true
	}
	return c.Context.Value(key)
}

// nested returns an error if ctx is the context of an effect of the store.
func (s *Store) nested(ctx context.Context) error {
	if ctx.Value(effectKey{store: s}) == nil {
		return nil
	}
	return fmt.Errorf("sqlstore: an effect must not call its store, which may wait for it for ever: use the effect's transaction: %w", dispatcher.ErrNested)
}
