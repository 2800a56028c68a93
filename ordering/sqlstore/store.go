package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Store is an [ordering.Store] in a database. Packages sqlite and postgres open
// one. Its methods are safe for concurrent use.
type Store struct {
	db      *sql.DB // for the store's own reads
	reads   *sql.DB // for the caller's
	writes  *sql.DB // for effects
	dialect sqldb.Dialect
	backend backend
	commits *atomic.Int64
	limit   *duration // of effects

	measured  *measured
	consumers consumers
	gate      gate
	solo      ordering.Solo
}

// Solo returns the [ordering.Solo] that all sequencers on the store share.
func (s *Store) Solo() *ordering.Solo { return &s.solo }

// backend is implemented for each kind of database.
type backend interface {
	// write runs do in a transaction and commits it.
	write(ctx context.Context, do step) error
	// writeFor is write for a handler: it also runs its effect after do, if
	// that is not nil.
	writeFor(ctx context.Context, do step, apply effect) error
	// alone runs do, which makes its own write transactions.
	alone(ctx context.Context, do func(db *sql.DB) error) error
	// begin begins the term and fills it in; its consumer is set.
	begin(ctx context.Context, t *termOf) error
	// toChange waits for the writes of the term that are under way, and keeps
	// others from writing in it until the end of the transaction.
	toChange(ctx context.Context, tx *transaction, t termOf) error
	// inTerm returns an error if the term has ended, and keeps the next one
	// from beginning before the end of the transaction.
	inTerm(ctx context.Context, tx *transaction, t termOf) error
	// acquire takes over the streams, which are sorted and unique, and returns
	// their rows in that order. It fails if the term has ended.
	acquire(ctx context.Context, t termOf, streams []string) ([]row, error)
	// commit adds a commit to the transaction: at once or, on PostgreSQL, when the
	// transaction is committed.
	commit(ctx context.Context, tx *transaction, c *commit) error
	// lock returns the rows of streams, in the order of the streams, and locks
	// them until the end of the transaction.
	lock(ctx context.Context, tx *transaction, t termOf, streams []string) ([]row, error)
	// fences reports whether the token is that of the row's holder.
	fences(t termOf, r row, fence int64) bool
	// check returns an error that wraps ErrFenced unless all tokens are valid,
	// and keeps their streams from being taken over before the end of the
	// transaction.
	check(ctx context.Context, tx *transaction, t termOf, fences ordering.Fences) error
	// lockParkings is check, and also locks the parkings and their streams: no other
	// transaction parks or resumes them before the end of this one.
	lockParkings(ctx context.Context, tx *transaction, t termOf, parkings []string, fences ordering.Fences) error
	// look calls use for each of the positions, in any order, with the columns
	// of lookUp, all from one snapshot. It fails if the term has ended.
	look(ctx context.Context, t termOf, positions []ordering.Position, use scanner) error
	// heldPage returns the query for a page of held events.
	heldPage() string
	// lookCommands calls use for each known ID, in any order, with the ID and
	// commandColumns, all from one snapshot. It fails if the term has ended.
	lookCommands(ctx context.Context, t termOf, ids []string, use scanner) error
	close() error
	waiting() int
}

// row is a row of the table of streams.
type row struct {
	stream   string
	last     uint64
	spans    int // in the table of what is done above last
	ended    uint64
	fence    int64
	parking  string
	closedAt uint64
	heldAt   uint64 // the first held number; of acquired rows only

	done ordering.Spans // of acquired rows, where spans is 0
}

// DB returns the database, for reads, and on PostgreSQL also for an outbox, its
// relay and other tables of the caller. It has 16 connections, apart from those
// of the store's transactions and reads, so these never wait for it; its
// settings may be changed. As with any pool, a caller that holds rows or a
// transaction of it and asks for another connection can wait for ever, if
// others do the same: use a context with a deadline for such calls, as an
// effect has.
//
// Write with [Store.Do] and [Store.Write]: other writes on SQLite block the
// store's own transactions, and are blocked by them.
func (s *Store) DB() *sql.DB { return s.reads }

// Dialect returns which database it is, [outbox.SQLite] or [outbox.PostgreSQL] of package
// replay/outbox: for an outbox or an event log beside the store, and for tables of the
// caller's that are not the same on both.
func (s *Store) Dialect() sqldb.Dialect { return s.dialect }

// MaxHandlers returns how many handlers can have a transaction at the same
// time; 0 on SQLite, where they take turns. Others wait for a connection.
func (s *Store) MaxHandlers() int {
	if s.dialect == sqldb.SQLite {
		return 0
	}
	return s.writes.Stats().MaxOpenConnections
}

// Prepare makes a statement for the effects of jobs, which use it with
// [sql.Tx.StmtContext]. On SQLite that saves parsing it each time, which can
// take as long as running it.
func (s *Store) Prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := s.enterToWrite(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	return s.writes.PrepareContext(ctx, query)
}

// ErrComponent is wrapped by the error of [Store.Migrate] for a name that is
// reserved or invalid.
var ErrComponent = sqldb.ErrComponent

// Migrate migrates the caller's own tables in the same database: it runs those of the
// steps that it has not run before under the name component, which has 1 to 64 ASCII
// letters, digits, or any of _ - . /; "ordering", "outbox", "eventlog" and "saga" are
// reserved for the library, and refused with [ErrComponent]. Steps are SQL; do not
// change a released step, but append new ones. Several processes may call Migrate at
// once. The error wraps [ordering.ErrSchema] if the tables were made by a program that
// has more steps.
func (s *Store) Migrate(ctx context.Context, component string, steps []string) error {
	if err := sqldb.CheckComponent(component); err != nil {
		return fmt.Errorf("sqlstore: migrate: %w", err)
	}
	if err := s.enterToWrite(ctx); err != nil {
		return err
	}
	defer s.gate.leave()
	return s.backend.alone(ctx, func(db *sql.DB) error { return migrate(ctx, db, s.dialect, component, steps) })
}

func migrate(ctx context.Context, db *sql.DB, d sqldb.Dialect, component string, steps []string) error {
	err := sqldb.Migrate(ctx, db, d, component, steps)
	if errors.Is(err, sqldb.ErrSchema) {
		return fmt.Errorf("%w: %w", ordering.ErrSchema, err)
	}
	return err
}

// Commits returns the number of transactions committed since the store was
// opened.
func (s *Store) Commits() int64 { return s.commits.Load() }

// Waiting returns the number of commits that wait for the single writer of
// SQLite; 0 on PostgreSQL.
func (s *Store) Waiting() int { return s.backend.waiting() }

// Close implements [ordering.Store]. It waits for the calls that have begun.
func (s *Store) Close() error {
	if !s.gate.close() {
		return nil
	}
	return errors.Join(s.backend.close(), s.db.Close(), s.reads.Close())
}

// enter returns an error if the store must not be used. Otherwise the caller
// must leave the gate later.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.gate.enter() {
		return ordering.ErrStoreClosed
	}
	return nil
}

// enterToWrite is enter for calls that may wait for effects to end. In an effect it
// returns an error.
func (s *Store) enterToWrite(ctx context.Context) error {
	if err := s.nested(ctx); err != nil {
		return err
	}
	if s.together(ctx) != nil {
		return ErrTogether
	}
	return s.enter(ctx)
}

// write runs do in a transaction of the store's own.
func (s *Store) write(ctx context.Context, op string, do step) error {
	if err := s.enterToWrite(ctx); err != nil {
		return err
	}
	defer s.gate.leave()
	return storeError(op, s.backend.write(ctx, do))
}

// writeWith is write for a handler, with its effect if that is not nil.
func (s *Store) writeWith(ctx context.Context, op string, do step, apply effect) error {
	if err := s.enterToWrite(ctx); err != nil {
		return err
	}
	defer s.gate.leave()
	return storeError(op, s.backend.writeFor(ctx, do, apply))
}

// storeError wraps an error of the database in an [*ordering.StoreError]; other
// errors are returned as they are.
func storeError(op string, err error) error {
	if effect, ok := err.(*effectError); ok {
		return effect.error
	}
	switch {
	case err == nil, errors.Is(err, ordering.ErrDuplicate), errors.Is(err, ordering.ErrFenced), errors.Is(err, ordering.ErrReply),
		errors.As(err, new(*ordering.LostError)), errors.As(err, new(*ordering.StoreError)):
		return err
	}
	return &ordering.StoreError{Op: op, Err: err}
}

// Reader implements [ordering.Store].
func (s *Store) Reader(name string) ordering.Reader {
	if name == "" {
		name = ordering.DefaultConsumer
	}
	return reader{s, name}
}

// Acquire implements [ordering.Term].
func (t *term) Acquire(ctx context.Context, streams []lockkeys.Key) ([]ordering.StreamState, error) {
	s := t.store
	if err := s.enterToWrite(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	if len(streams) == 0 {
		return []ordering.StreamState{}, nil
	}
	texts := make([]string, len(streams))
	for i, key := range streams {
		texts[i] = key.String()
	}
	sorted := slices.Sorted(slices.Values(texts))
	rows, err := s.backend.acquire(ctx, t.termOf, sorted)
	if err != nil {
		return nil, storeError("acquire", err)
	}
	byStream := make(map[string]ordering.StreamState, len(rows))
	for _, r := range rows {
		if byStream[r.stream], err = s.state(ctx, t.consumer, r); err != nil {
			return nil, storeError("acquire", err)
		}
	}
	states := make([]ordering.StreamState, len(streams))
	for i, text := range texts {
		states[i] = byStream[text]
	}
	return states, nil
}

func (s *Store) state(ctx context.Context, consumer int64, r row) (ordering.StreamState, error) {
	state := ordering.StreamState{Last: r.last, Done: r.done, Ended: r.ended, Fence: r.fence, Parked: r.parking, HeldAt: r.closedAt}
	if r.heldAt > 0 && (state.HeldAt == 0 || r.heldAt < state.HeldAt) {
		state.HeldAt = r.heldAt
	}
	if r.spans == 0 {
		return state, nil
	}
	var err error
	state.Done, err = loadSpans(ctx, s.db, consumer, r.stream)
	return state, err
}

// queryer is a database or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// scanner uses a row.
type scanner func(scan func(dest ...any) error) error

// each calls use for every row of a query.
func each(ctx context.Context, db queryer, use scanner, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := use(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Times are stored in microseconds since 1970, the zero time as 0.
func toMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// snapshot returns the isolation level in which several reads are consistent.
func (s *Store) snapshot() sql.IsolationLevel {
	if s.dialect == sqldb.PostgreSQL {
		return sql.LevelRepeatableRead
	}
	return sql.LevelDefault // of SQLite, that of every transaction
}
