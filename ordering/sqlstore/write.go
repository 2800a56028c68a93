package sqlstore

import (
	"context"
	"database/sql"
)

// Write runs apply in a transaction of its own and commits it, for writes to
// the caller's tables that belong to no event. The rules for the effect of
// [Store.Do] hold for apply. On SQLite only the store that opened the database
// last may write; for another one the error wraps [ordering.ErrFenced].
func (s *Store) Write(ctx context.Context, apply func(ctx context.Context, tx *sql.Tx) error) error {
	return s.writeWith(ctx, "write", nil,
		func(ctx context.Context, tx *sql.Tx) error { return apply(effectContext{ctx, s}, tx) })
}
