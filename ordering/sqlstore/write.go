package sqlstore

import (
	"context"
	"database/sql"
)

// Write runs apply in a transaction of its own and commits it: for tables of the
// caller's that go with no event. What is said of the effect of [Store.Do] holds
// for apply. On SQLite only whoever opened the database last may write; for another
// one the error wraps [ordering.ErrFenced].
func (s *Store) Write(ctx context.Context, apply func(ctx context.Context, tx *sql.Tx) error) error {
	nothing := func(context.Context, *transaction) error { return nil }
	return s.writeWith(ctx, "write", nothing,
		func(ctx context.Context, tx *sql.Tx) error { return apply(effectContext{ctx, s}, tx) })
}
