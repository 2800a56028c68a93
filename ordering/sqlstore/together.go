package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/internal/contain"
)

// Together runs several handlers in one transaction, for [ordering.Config].Together
// or [dispatcher.Config].Together. In their contexts [Store.Do] and [Store.Commit]
// write into that transaction: they return when the effect is written, and it is
// durable, with all others, when Together has returned nil. If run returns an
// error, or a Do or Commit has returned one, even if the handler ignored that, or the
// commit fails, nothing is written.
//
// The handlers must read by this transaction alone, in the effect that they give to Do
// or by [Store.TogetherTx]: another connection does not see what the handlers before
// have written. If they need no reads by it, [Store.TogetherRows] keeps nobody waiting
// while they run. They must not call other methods that write: with their contexts
// these return [ErrTogether].
//
// The time set by [Store.LimitEffects] is that for all of it, and for each effect.
// On SQLite no other write is possible during that time.
func (s *Store) Together(ctx context.Context, run func(ctx context.Context) error) error {
	var whole *transaction
	begin := func(_ context.Context, tx *transaction) error {
		whole = tx
		return nil
	}
	return s.writeWith(ctx, "commit", begin, func(ctx context.Context, tx *sql.Tx) error {
		own := whole.within(tx)
		if err := run(context.WithValue(ctx, togetherKey{s}, own)); err != nil {
			return err
		}
		if own.failed != nil {
			return own.failed
		}
		whole.commits = append(whole.commits, own.commits...)
		return nil
	})
}

// TogetherTx returns the transaction of the call of [Store.Together] that ctx belongs
// to, for reads before [Store.Do], or nil if there is none. Do not write with it.
func (s *Store) TogetherTx(ctx context.Context) *sql.Tx {
	if tx := s.together(ctx); tx != nil {
		return tx.Tx
	}
	return nil
}

// ErrTogether is wrapped by the error of a method that writes and is called within
// [Store.Together], where only [Store.Do] and [Store.Commit] can, or within
// [Store.TogetherRows], where only [Store.DoRows] can. A handler that
// returns it runs by itself.
var ErrTogether = errors.New("sqlstore: only Do and Commit can write within Together, and only DoRows within TogetherRows")

// errFailed is the error of what follows a failed Do or Commit within Together.
var errFailed = errors.New("sqlstore: another one in the transaction has failed, so nothing of it will be written")

type togetherKey struct{ store *Store }

// together returns the transaction of the call of Together that ctx belongs to, or
// nil.
func (s *Store) together(ctx context.Context) *transaction {
	tx, _ := ctx.Value(togetherKey{s}).(*transaction)
	return tx
}

// doTogether is Do, or Commit if apply is nil, within Together.
func (s *Store) doTogether(ctx context.Context, tx *transaction, c *commit, apply effect) (err error) {
	if err := s.nested(ctx); err != nil {
		return err
	}
	if tx.chain != nil {
		return fmt.Errorf("%w: give rows within TogetherRows", ErrTogether)
	}
	if tx.failed != nil { // so that whoever runs the handlers learns of it, whatever they ignore
		return storeError("commit", fmt.Errorf("%.80q: %w: %v", c.Event.Name(), errFailed, tx.failed))
	}
	tx.failed = contain.ErrGoexit // unless it returns; then a part may have been written
	defer func() {
		if err != nil {
			tx.failed = err
		}
	}()
	if err := s.backend.commit(ctx, tx, c); err != nil {
		return storeError("commit", fmt.Errorf("%.80q: %w", c.Event.Name(), err))
	}
	if apply != nil {
		limited, cancel := s.limit.context(ctx)
		defer cancel()
		if err := apply.run(limited, tx.Tx); err != nil {
			return storeError("commit", err)
		}
	}
	tx.failed = nil
	return nil
}
