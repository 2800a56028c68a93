package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering"
)

// Pools are those of a PostgreSQL database. They are three, so that nobody waits
// for a connection of those who wait for him: handlers that have a transaction
// may read beside it, and the store sees to its own whatever handlers do.
type Pools struct {
	Handlers *sql.DB // for [Store.Do] and commits: one connection for each handler at work
	Own      *sql.DB // for all else that the store does; a few connections
	Reads    *sql.DB // for [Store.DB]
}

// NewPostgres makes a store of a PostgreSQL database that is opened already;
// package postgres does so from a URL. The store closes the pools, also on an
// error. That wraps [ErrPooled] if the server's sessions go from one connection
// to another.
func NewPostgres(ctx context.Context, p Pools) (*Store, error) {
	err := sqldb.CheckSessions(ctx, p.Own)
	if err == nil {
		err = migrate(ctx, p.Own, sqldb.PostgreSQL, "ordering", steps(sqldb.PostgreSQL))
	}
	if err != nil {
		return nil, errors.Join(err, p.Handlers.Close(), p.Own.Close(), p.Reads.Close())
	}
	b := &postgres{db: p.Own, handlers: p.Handlers, limit: &duration{}}
	return &Store{db: p.Own, reads: p.Reads, writes: p.Handlers, dialect: sqldb.PostgreSQL, backend: b, commits: &b.commits, limit: b.limit}, nil
}

// ErrPooled is wrapped by the error of opening a PostgreSQL database by way of a
// pooler that gives a session of the server's to many connections in turn:
// PgBouncer with a pool_mode of transaction or statement, for example. Open it
// directly, or by way of a pooler with pool_mode=session.
var ErrPooled = sqldb.ErrPooled

// postgres is the backend of a PostgreSQL database. Rows of streams are locked
// in the order of the streams, so that transactions cannot deadlock on them.
type postgres struct {
	db       *sql.DB
	handlers *sql.DB
	limit    *duration // of an effect
	commits  atomic.Int64
}

func (b *postgres) alone(_ context.Context, do func(db *sql.DB) error) error { return do(b.db) }

func (b *postgres) write(ctx context.Context, do step) error {
	return b.transact(ctx, b.db, nil, do, nil)
}

// Committer is a connection of [Pools].Handlers that commits a transaction only
// after MayCommit was called in it, and otherwise undoes it with [ErrEnded]: so
// an effect cannot commit its own.
type Committer interface{ MayCommit() }

// writeFor implements backend. It knows the connection of the transaction, to
// say that it may be committed. To wait for it is no part of an attempt, whose
// time begins then: those who hang in their transactions do not use it up.
func (b *postgres) writeFor(ctx context.Context, do step, apply effect) error {
	own, began := left(ctx), time.Now()
	waiting, leave := patient(ctx)
	defer leave()
	conn, err := b.handlers.Conn(waiting)
	if err != nil {
		if waiting.Err() != nil {
			err = ctx.Err()
		}
		return err
	}
	defer conn.Close()
	if time.Since(began) > own/2 && own > 0 {
		again, end := context.WithTimeoutCause(waiting, own, dispatcher.ErrTimeout)
		defer end()
		ctx = again
	}
	var committer Committer
	if err := conn.Raw(func(c any) error { committer, _ = c.(Committer); return nil }); err != nil {
		return err
	}
	return b.transact(ctx, conn, committer, do, apply)
}

func (b *postgres) transact(ctx context.Context, db interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}, committer Committer, do step, apply effect) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of what was not committed
	if err = do(ctx, &transaction{Tx: tx}); err == nil && apply != nil {
		limited, cancel := b.limit.context(ctx)
		err = apply.run(limited, tx)
		cancel()
	}
	if err != nil {
		if lost := tx.Rollback(); lost != nil && !errors.Is(lost, sql.ErrTxDone) && ctx.Err() == nil {
			return errors.Join(err, lost) // also if it came to light in the caller's effect
		}
		return err
	}
	if committer != nil {
		committer.MayCommit()
	}
	switch err := tx.Commit(); {
	case err == nil:
		b.commits.Add(1)
		return nil
	case errors.Is(err, ErrEnded):
		return &effectError{err}
	case errors.Is(err, sql.ErrTxDone) && committer != nil && ctx.Err() == nil:
		return &effectError{ErrEnded}
	default:
		return commitError(err)
	}
}

// commitError tells whether it is because of what was written that the server
// refused to commit it: for a deferred constraint, or for another transaction
// if both are serializable.
func commitError(err error) error {
	const constraint, conflict = "23", "40" // classes of errors
	var server interface{ SQLState() string }
	if errors.As(err, &server) {
		if state := server.SQLState(); strings.HasPrefix(state, constraint) || strings.HasPrefix(state, conflict) {
			return &effectError{err}
		}
	}
	return err
}

// takeOver gives streams new tokens. It need not be on the disk when it
// returns: if the server crashes and forgets it, the old token is good again
// and the new one refused, so that there is one holder still, who can commit.
//
// A token that was forgotten must not be given to another one. So tokens are
// times, in microseconds, of the server's clock; if that goes back, they go on
// from the last one.
const takeOver = `
	WITH unflushed AS MATERIALIZED (
		SELECT set_config('synchronous_commit', 'off', true)
	), taken AS (
		INSERT INTO ordering_streams (stream, last, fence)
		SELECT stream, 0, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
		FROM unflushed, unnest($1::text[]) stream ORDER BY stream COLLATE "C"
		ON CONFLICT (stream) DO UPDATE SET fence = greatest(ordering_streams.fence + 1, excluded.fence)
		RETURNING stream, last, spans, ended, fence, parking, closed_at)
	SELECT * FROM taken ORDER BY stream`

// acquire implements backend. What is held is asked for once the streams are
// taken over, so that it is no older than the rest.
func (b *postgres) acquire(ctx context.Context, streams []string) ([]row, error) {
	rows, err := b.rows(ctx, b.db, takeOver, streams)
	if err != nil {
		return nil, err
	}
	i := 0
	err = each(ctx, b.db, func(scan func(...any) error) error {
		i++
		return scan(&rows[i-1].heldAt)
	}, `SELECT coalesce((SELECT min(number) FROM ordering_held_positions h WHERE h.stream = w), 0)
		FROM unnest($1::text[]) WITH ORDINALITY AS list (w, place) ORDER BY place`, streams)
	return rows, err
}

func (b *postgres) lock(ctx context.Context, tx *transaction, streams []string) ([]row, error) {
	rows, err := b.rows(ctx, tx, `SELECT stream, last, spans, ended, fence, parking, closed_at FROM ordering_streams
		WHERE stream = ANY($1) ORDER BY stream FOR UPDATE`, streams)
	if err != nil || len(rows) == len(streams) {
		return rows, err
	}
	found := make(map[string]row, len(rows))
	for _, r := range rows {
		found[r.stream] = r
	}
	all := make([]row, len(streams))
	for i, stream := range streams { // one that nobody has acquired has no token
		if r, ok := found[stream]; ok {
			all[i] = r
		} else {
			all[i] = row{stream: stream}
		}
	}
	return all, nil
}

func (b *postgres) lockParking(ctx context.Context, tx *transaction, parking string, fences ordering.Fences) error {
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(496362878346)`); err != nil { // any number
		return err
	}
	return b.compare(ctx, tx, fences, `SELECT stream, fence FROM ordering_streams
		WHERE stream = ANY($1) OR parking = $2 ORDER BY stream FOR UPDATE`, parking)
}

// check implements backend.
func (b *postgres) check(ctx context.Context, tx *transaction, fences ordering.Fences) error {
	return b.compare(ctx, tx, fences, `SELECT stream, fence FROM ordering_streams
		WHERE stream = ANY($1) ORDER BY stream FOR NO KEY UPDATE`)
}

// compare tells whether tokens are what a query says, which has their streams
// as its first argument, and returns streams with their tokens.
func (b *postgres) compare(ctx context.Context, tx *transaction, fences ordering.Fences, query string, args ...any) error {
	streams := make([]string, 0, len(fences))
	for key := range fences {
		streams = append(streams, key.String())
	}
	found := make(map[string]int64, len(fences))
	err := each(ctx, tx, func(scan func(...any) error) error {
		var stream string
		var fence int64
		err := scan(&stream, &fence)
		found[stream] = fence
		return err
	}, query, append([]any{streams}, args...)...)
	if err != nil {
		return err
	}
	for key, fence := range fences {
		if !b.fences(row{fence: found[key.String()]}, fence) {
			return fenced(key.String(), fence)
		}
	}
	return nil
}

// look implements backend. It first waits for those who have the rows of the
// streams, and keeps others from them: a transaction whose client is gone ends
// only when the server finds out.
func (b *postgres) look(ctx context.Context, positions []ordering.Position, use scanner) error {
	streams, numbers := make([]string, len(positions)), make([]int64, len(positions))
	for i, p := range positions {
		streams[i], numbers[i] = p.Stream.String(), int64(min(p.Number, ordering.MaxNumber))
	}
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	_, err = tx.ExecContext(ctx, `SELECT FROM ordering_streams WHERE stream = ANY($1) ORDER BY stream FOR SHARE`, streams)
	if err != nil {
		return err
	}
	return each(ctx, tx, use, lookUp(`unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS w (stream, number, place)`, `coalesce(s.fence, 0)`), streams, numbers)
}

func (b *postgres) rows(ctx context.Context, db queryer, query string, streams []string) (rows []row, err error) {
	err = each(ctx, db, func(scan func(...any) error) error {
		var r row
		err := scan(&r.stream, &r.last, &r.spans, &r.ended, &r.fence, &r.parking, &r.closedAt)
		rows = append(rows, r)
		return err
	}, query, streams)
	return rows, err
}

// advance implements backend, in one round trip.
func (b *postgres) advance(ctx context.Context, tx *transaction, c *commit) (moved int, err error) {
	if len(c.streams) > few {
		return 0, nil
	}
	args := slices.Clip(c.job)
	for i, stream := range c.streams {
		args = append(args, stream, c.numbers[i], c.fences[i])
	}
	err = tx.QueryRowContext(ctx, advances[len(c.streams)], args...).Scan(&moved)
	return moved, err
}

// few is the most streams that there is a statement for.
const few = 8

// advances are the statements for events of 0 to few streams. Each stream is
// moved on if the one before was, so that their rows are locked in order; the
// job state is kept if all were. The result is how many were.
var advances = func() (list [few + 1]string) {
	for n := 1; n <= few; n++ {
		var with, moved strings.Builder
		for i := range n {
			at := 11 + 3*i
			fmt.Fprintf(&with, `moved%d AS (UPDATE ordering_streams SET last = $%[3]d::bigint
				WHERE stream = $%[2]d AND last = $%[3]d::bigint - 1 AND fence = $%[4]d AND spans = 0`, i, at, at+1, at+2)
			if i > 0 {
				fmt.Fprintf(&with, ` AND EXISTS (SELECT FROM moved%d)`, i-1)
				moved.WriteString(` + `)
			}
			with.WriteString(` RETURNING 1), `)
			fmt.Fprintf(&moved, `(SELECT count(*) FROM moved%d)`, i)
		}
		fmt.Fprintf(&with, `job AS (INSERT INTO ordering_jobs (`+jobColumns+`)
			SELECT $1, $2::bigint, $3, $4::bytea, $5, $6::bigint, $7::bigint, $8, $9::bigint, $10::bigint FROM moved%d `+replaceJob+`)`, n-1)
		list[n] = fmt.Sprintf(`WITH %s SELECT %s`, with.String(), moved.String())
	}
	return list
}()

func (b *postgres) fences(r row, fence int64) bool { return r.fence == fence && fence != 0 }

func (b *postgres) waiting() int { return 0 }

func (b *postgres) close() error { return b.handlers.Close() }
