package sqlstore

import (
	"context"
	"database/sql"
)

// Write runs apply in a transaction of its own and commits it: for tables of the
// caller's that go with no event. What was said of the effect of [Store.Do]
// holds for apply. On SQLite only the session that opened the database last may
// write; for another one the error wraps [ordering.ErrFenced].
func (s *Store) Write(ctx context.Context, apply func(ctx context.Context, tx *sql.Tx) error) error {
	return s.write(ctx, "write", func(ctx context.Context, tx *transaction) error {
		return effect(apply).run(ctx, s, tx.Tx)
	})
}
