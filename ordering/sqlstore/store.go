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
// one. Its methods may be called from any number of goroutines at once.
type Store struct {
	db      *sql.DB // for the store's own reads
	reads   *sql.DB // for the caller's
	writes  *sql.DB // for effects
	dialect sqldb.Dialect
	backend backend
	commits *atomic.Int64
	limit   *duration // of effects
	gate    gate
}

// backend is what the databases do differently.
type backend interface {
	// write runs do in a transaction and commits it.
	write(ctx context.Context, do step) error
	// writeFor does so for a handler, with its effect after do if it is not nil.
	writeFor(ctx context.Context, do step, apply effect) error
	// alone runs do, which makes transactions of its own to write.
	alone(ctx context.Context, do func(db *sql.DB) error) error
	// acquire takes over the streams, which are sorted and have no doubles,
	// and returns their rows in that order.
	acquire(ctx context.Context, streams []string) ([]row, error)
	// advance makes the numbers of an event done that are the next ones of
	// their streams, in the order of those, up to the first that is not, and
	// returns how many. If it was all of them, the job state is kept as well.
	advance(ctx context.Context, tx *transaction, c *commit) (moved int, err error)
	// lock returns the rows of streams, so that nobody else changes them
	// before the end of the transaction, in the order of the streams.
	lock(ctx context.Context, tx *transaction, streams []string) ([]row, error)
	// fences tells whether the row belongs to who has a token.
	fences(r row, fence int64) bool
	// check gives an error that wraps ErrFenced unless all tokens are good, and
	// lets nobody take their streams over before the end of the transaction.
	check(ctx context.Context, tx *transaction, fences ordering.Fences) error
	// lockParking does so, lets nobody else park or resume meanwhile, and
	// likewise has the streams of the parking to itself.
	lockParking(ctx context.Context, tx *transaction, parking string, fences ordering.Fences) error
	// look calls use for each of the positions, in any order, with the columns
	// of lookUp, all of one moment.
	look(ctx context.Context, positions []ordering.Position, use scanner) error
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
}

// DB returns the database, for reads, and on PostgreSQL for an outbox, its relay
// and whatever else the caller has there. It has 16 connections that are neither
// of the store's transactions nor of its own reads, so that none of those is
// waited for; its settings may be changed. Like with any pool, who holds rows or
// a transaction of it and asks for more of it can wait for ever, if others do
// the same: give such calls a context that ends, as that of an effect does.
//
// Writes belong into [Store.Do] and [Store.Write]: what goes past them on SQLite
// waits for the store's own transactions, and they for it.
func (s *Store) DB() *sql.DB { return s.reads }

// MaxHandlers is how many handlers can have a transaction at the same time; 0 on
// SQLite, where they take turns. One more waits for a connection.
func (s *Store) MaxHandlers() int {
	if s.dialect == sqldb.SQLite {
		return 0
	}
	return s.writes.Stats().MaxOpenConnections
}

// Prepare makes a statement for the effects of jobs, which use it by
// [sql.Tx.StmtContext]. On SQLite that spares parsing it each time, which can
// take as long as running it.
func (s *Store) Prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := s.enterToWrite(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	return s.writes.PrepareContext(ctx, query)
}

// ErrComponent is wrapped by the error of [Store.Migrate] for a name that is
// reserved or none.
var ErrComponent = sqldb.ErrComponent

// Migrate brings tables of the caller's own up to date, in the same database:
// it takes those of the steps that it has not taken before under the name
// component, which has 1 to 64 letters, digits, or any of _ - . / of ASCII;
// "ordering" and "outbox" are the library's own, and refused with
// [ErrComponent]. Steps are SQL; a step that was released must not be changed any
// more, new ones are added at the end. It may be called by several processes
// at once. The error wraps [ordering.ErrSchema] if the tables were made by a
// program that has more steps.
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

// Commits is how many transactions were committed since the store was opened.
func (s *Store) Commits() int64 { return s.commits.Load() }

// Waiting is how many commits wait for the one writer of SQLite; 0 on
// PostgreSQL.
func (s *Store) Waiting() int { return s.backend.waiting() }

// Close implements [ordering.Store]. It waits for the calls that have begun.
func (s *Store) Close() error {
	if !s.gate.close() {
		return nil
	}
	return errors.Join(s.backend.close(), s.db.Close(), s.reads.Close())
}

// enter tells whether the store may be used. Who has entered leaves the gate.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.gate.enter() {
		return ordering.ErrStoreClosed
	}
	return nil
}

// enterToWrite does so for what may wait for effects to end.
func (s *Store) enterToWrite(ctx context.Context) error {
	if err := s.nested(ctx); err != nil {
		return err
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

// writeWith does so for a handler, with its effect if that is not nil.
func (s *Store) writeWith(ctx context.Context, op string, do step, apply effect) error {
	if err := s.enterToWrite(ctx); err != nil {
		return err
	}
	defer s.gate.leave()
	return storeError(op, s.backend.writeFor(ctx, do, apply))
}

// storeError marks an error of the database, if it is that.
func storeError(op string, err error) error {
	if effect, ok := err.(*effectError); ok {
		return effect.error
	}
	switch {
	case err == nil, errors.Is(err, ordering.ErrDuplicate), errors.Is(err, ordering.ErrFenced),
		errors.As(err, new(*ordering.StoreError)):
		return err
	}
	return &ordering.StoreError{Op: op, Err: err}
}

// Acquire implements [ordering.Store].
func (s *Store) Acquire(ctx context.Context, streams []lockkeys.Key) ([]ordering.StreamState, error) {
	if err := s.enter(ctx); err != nil {
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
	rows, err := s.backend.acquire(ctx, sorted)
	if err != nil {
		return nil, storeError("acquire", err)
	}
	byStream := make(map[string]ordering.StreamState, len(rows))
	for _, r := range rows {
		if byStream[r.stream], err = s.state(ctx, r); err != nil {
			return nil, storeError("acquire", err)
		}
	}
	states := make([]ordering.StreamState, len(streams))
	for i, text := range texts {
		states[i] = byStream[text]
	}
	return states, nil
}

func fenced(stream string, fence int64) error {
	return fmt.Errorf("%w: %s, token %d", ordering.ErrFenced, stream, fence)
}

func (s *Store) state(ctx context.Context, r row) (ordering.StreamState, error) {
	state := ordering.StreamState{Last: r.last, Ended: r.ended, Fence: r.fence, Parked: r.parking, HeldAt: r.closedAt}
	if r.heldAt > 0 && (state.HeldAt == 0 || r.heldAt < state.HeldAt) {
		state.HeldAt = r.heldAt
	}
	if r.spans == 0 {
		return state, nil
	}
	var err error
	state.Done, err = loadSpans(ctx, s.db, r.stream)
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

// Times are kept in microseconds since 1970, the zero time as 0.
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

// snapshot is the isolation level in which several reads see one moment.
func (s *Store) snapshot() sql.IsolationLevel {
	if s.dialect == sqldb.PostgreSQL {
		return sql.LevelRepeatableRead
	}
	return sql.LevelDefault // of SQLite, that of every transaction
}

func sortPositions(list []ordering.Position) {
	slices.SortFunc(list, func(a, b ordering.Position) int { return a.Stream.Compare(b.Stream) })
}
