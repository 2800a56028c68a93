package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering"
)

// ReadOnly is the database of a store that is only looked at, beside the process that
// works on it: for operators' tools. It begins no term, takes nothing over, makes no tables
// and writes nothing, whereas opening a [Store] on SQLite fences the process that has the
// file. Packages sqlite and postgres open one. Its methods are safe for concurrent use.
type ReadOnly struct{ store Store }

// NewReadOnly returns the ReadOnly of a database, which is closed with it. The error wraps
// [ordering.ErrSchema] if the store's tables are missing, or are of another version than
// this program's: of an older one, since they are not migrated.
func NewReadOnly(ctx context.Context, db *sql.DB, dialect sqldb.Dialect) (*ReadOnly, error) {
	if err := sqldb.CheckVersion(ctx, db, "ordering", len(steps(dialect))); err != nil {
		if errors.Is(err, sqldb.ErrSchema) {
			err = fmt.Errorf("%w: %w", ordering.ErrSchema, err)
		}
		return nil, errors.Join(err, db.Close())
	}
	r := &ReadOnly{store: Store{db: db, reads: db, dialect: dialect, backend: &sqlite{}}}
	if dialect == sqldb.PostgreSQL {
		r.store.backend = &postgres{}
	}
	return r, nil
}

// Reader returns a reader of what belongs to a consumer's name: what is parked and held,
// and what operators have decided.
func (r *ReadOnly) Reader(name string) ordering.Reader { return r.store.Reader(name) }

// Terms returns the latest term of each consumer and partition: who works on the store, or
// did last. Those that have ended are left out.
func (r *ReadOnly) Terms(ctx context.Context) (list []ordering.TermInfo, err error) {
	if err := r.store.enter(ctx); err != nil {
		return nil, err
	}
	defer r.store.gate.leave()
	err = each(ctx, r.store.db, func(scan func(...any) error) error {
		var t ordering.TermInfo
		var since int64
		if err := scan(&t.Name, &t.Partition, &t.Holder, &t.Number, &t.Token, &since); err != nil {
			return err
		}
		t.Since = fromMicros(since)
		list = append(list, t)
		return nil
	}, `SELECT c.name, t.part, t.holder, t.number, t.token, t.since FROM ordering_terms t JOIN ordering_consumers c ON c.id = t.consumer
		WHERE t.ended = 0 ORDER BY c.name, t.part`)
	return list, storeError("terms", err)
}

// Consumers returns the names of all consumers that have ever worked on the store, sorted.
func (r *ReadOnly) Consumers(ctx context.Context) (names []string, err error) {
	if err := r.store.enter(ctx); err != nil {
		return nil, err
	}
	defer r.store.gate.leave()
	err = each(ctx, r.store.db, func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		names = append(names, name)
		return err
	}, `SELECT name FROM ordering_consumers ORDER BY name`)
	return names, storeError("consumers", err)
}

// DB returns the database, for reads of other tables in it. On SQLite it cannot write.
func (r *ReadOnly) DB() *sql.DB { return r.store.db }

// Close closes the database. It waits for the calls that have begun.
func (r *ReadOnly) Close() error {
	if !r.store.gate.close() {
		return nil
	}
	return r.store.db.Close()
}
