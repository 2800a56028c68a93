package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/ordering"
)

// errNoEffect is the error of Do, Write and WriteIn without a function.
var errNoEffect = errors.New("sqlstore: apply is nil: give the function that writes")

// Write runs apply in a transaction of its own and commits it, for writes to
// the caller's tables that belong to no event. The rules for the effect of
// [Store.Do] hold for apply. On SQLite only the store that opened the database
// last may write; for another one the error wraps [ordering.ErrFenced].
func (s *Store) Write(ctx context.Context, apply func(ctx context.Context, tx *sql.Tx) error) error {
	if apply == nil {
		return errNoEffect
	}
	return s.writeWith(ctx, "write", nil,
		func(ctx context.Context, tx *sql.Tx) error { return apply(effectContext{ctx, s}, tx) })
}

// WriteIn is [Store.Write] in a term, which this store has begun: the transaction
// checks before apply that the term has not ended, and the next one begins only
// after it. In a term that is over the error wraps [ordering.ErrFenced], and apply
// is not called. On PostgreSQL the check is sent together with the BEGIN, in a
// round trip of its own. A write whose answer was lost has been carried out by then, or
// never will be.
func (s *Store) WriteIn(ctx context.Context, in ordering.Term, apply func(ctx context.Context, tx *sql.Tx) error) error {
	if apply == nil {
		return errNoEffect
	}
	t, ok := in.(*term)
	if !ok || t.store != s {
		return fmt.Errorf("sqlstore: write: %w: the term was begun by another store: begin one by this store", ordering.ErrFenced)
	}
	return s.writeWith(ctx, "write",
		func(ctx context.Context, tx *transaction) error {
			if b, ok := s.backend.(*postgres); ok {
				if err := b.settle(ctx); err != nil {
					return err
				}
			}
			return s.backend.inTerm(ctx, tx, t.termOf)
		},
		func(ctx context.Context, tx *sql.Tx) error { return apply(effectContext{ctx, s}, tx) })
}
