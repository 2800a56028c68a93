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

// Pools are the connection pools of a PostgreSQL database. There are three, so
// that no call waits for a connection held by one that waits for it: handlers
// that have a transaction may also read outside it, and the store's own work
// does not depend on handlers.
type Pools struct {
	Handlers *sql.DB // for [Store.Do] and commits: one connection for each handler at work
	Own      *sql.DB // for all other work of the store; a few connections
	Reads    *sql.DB // for [Store.DB]
}

// NewPostgres makes a store of an open PostgreSQL database; package postgres
// makes one from a URL. The store closes the pools, also if NewPostgres fails.
// The error wraps [ErrPooled] if a pooler shares the server's sessions between
// connections.
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

// ErrPooled is wrapped by the error of opening a PostgreSQL database through a
// pooler that shares sessions between connections, such as PgBouncer with
// pool_mode=transaction or statement. Connect directly, or through a pooler
// with pool_mode=session.
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
// after a call of MayCommit, and otherwise rolls it back with [ErrEnded]: so an
// effect cannot commit its own transaction.
type Committer interface{ MayCommit() }

// writeFor implements backend. It takes the connection of the transaction
// itself, to call MayCommit on it. The wait for that connection does not count
// as time of the attempt, so effects that hang do not use it up.
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

// commitError marks the error of a commit as the effect's if the server refused
// what was written: for a deferred constraint, or for another transaction if both
// are serializable.
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

// begin implements backend. It waits for the writes of the previous term.
func (b *postgres) begin(ctx context.Context, t *termOf) error {
	tx, err := b.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted}) // to see what they have written
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of what was not committed
	own := &transaction{Tx: tx}
	if err := t.name(ctx, own); err != nil {
		return err
	}
	if err := b.toChange(ctx, own, *t); err != nil {
		return err
	}
	if err := t.begin(ctx, own); err != nil {
		return err
	}
	return tx.Commit()
}

// toChange implements backend, by the lock that ordering_in_term shares.
func (b *postgres) toChange(ctx context.Context, tx *transaction, t termOf) error {
	_, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($2, $1))`, t.consumer, t.info.Partition)
	return err
}

// changed implements backend: nothing is remembered.
func (b *postgres) changed(termOf) {}

// inTerm implements backend.
func (b *postgres) inTerm(ctx context.Context, tx *transaction, t termOf) error {
	var goesOn bool
	err := tx.QueryRowContext(ctx, `SELECT ordering_in_term($1, $2, $3, $4)`, t.consumer, t.info.Partition, t.info.Number, t.info.Token).Scan(&goesOn)
	if err == nil && !goesOn {
		err = t.isOver(ctx, tx)
	}
	return err
}

// takeOver gives streams new fencing tokens. It need not be on disk when it
// returns: if the server crashes and loses it, the old token is valid again and
// the new one refused, so there is still exactly one holder that can commit.
//
// A lost token must not be issued again. So tokens are times of the server's
// clock, in microseconds; if that goes back, they continue from the last one.
const takeOver = `
	WITH term AS MATERIALIZED (
		SELECT ordering_in_term($2, $3, $4, $5) AS goes_on
	), unflushed AS MATERIALIZED (
		SELECT set_config('synchronous_commit', 'off', true)
	), taken AS (
		INSERT INTO ordering_streams (consumer, stream, last, fence, part)
		SELECT $2, stream, 0, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $3
		FROM term, unflushed, unnest($1::text[]) stream WHERE goes_on ORDER BY stream COLLATE "C"
		ON CONFLICT (consumer, stream) DO UPDATE SET fence = greatest(ordering_streams.fence + 1, excluded.fence), part = excluded.part
		RETURNING stream, last, spans, ended, fence, parking, closed_at)
	SELECT * FROM taken ORDER BY stream`

// acquire implements backend. It reads the held events after the streams are
// taken over, so that they are no older than the rest.
func (b *postgres) acquire(ctx context.Context, t termOf, streams []string) ([]row, error) {
	rows, err := b.rows(ctx, b.db, takeOver, streams, t.consumer, t.info.Partition, t.info.Number, t.info.Token)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, t.isOver(ctx, b.db)
	}
	i := 0
	err = each(ctx, b.db, func(scan func(...any) error) error {
		i++
		return scan(&rows[i-1].heldAt)
	}, `SELECT coalesce((SELECT min(number) FROM ordering_held_positions h WHERE h.consumer = $2 AND h.stream = w), 0)
		FROM unnest($1::text[]) WITH ORDINALITY AS list (w, place) ORDER BY place`, streams, t.consumer)
	return rows, err
}

func (b *postgres) lock(ctx context.Context, tx *transaction, t termOf, streams []string) ([]row, error) {
	rows, err := b.rows(ctx, tx, `SELECT stream, last, spans, ended, fence, parking, closed_at FROM ordering_streams
		WHERE consumer = $2 AND stream = ANY($1) ORDER BY stream FOR UPDATE`, streams, t.consumer)
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

func (b *postgres) lockParking(ctx context.Context, tx *transaction, t termOf, parking string, fences ordering.Fences) error {
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('ordering_parkings', $1))`, t.consumer); err != nil {
		return err
	}
	return b.compare(ctx, tx, t, fences, `SELECT stream, fence FROM ordering_streams
		WHERE consumer = $2 AND (stream = ANY($1) OR parking = $3 AND parking <> '') ORDER BY stream FOR UPDATE`, parking)
}

// check implements backend.
func (b *postgres) check(ctx context.Context, tx *transaction, t termOf, fences ordering.Fences) error {
	return b.compare(ctx, tx, t, fences, `SELECT stream, fence FROM ordering_streams
		WHERE consumer = $2 AND stream = ANY($1) ORDER BY stream FOR NO KEY UPDATE`)
}

// compare checks that tokens are what a query says, which has their streams
// as its first argument and the consumer as its second one, and returns streams
// with their tokens.
func (b *postgres) compare(ctx context.Context, tx *transaction, t termOf, fences ordering.Fences, query string, args ...any) error {
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
	}, query, append([]any{streams, t.consumer}, args...)...)
	if err != nil {
		return err
	}
	for key, fence := range fences {
		if stream := key.String(); !b.fences(t, row{fence: found[stream]}, fence) {
			return t.fenced(ctx, tx, stream, fence)
		}
	}
	return nil
}

// look implements backend. It first locks the rows of the streams, and so waits
// for transactions that hold them: one whose client is gone ends only when the
// server notices, and may still commit until then.
func (b *postgres) look(ctx context.Context, t termOf, positions []ordering.Position, use scanner) error {
	streams, numbers := make([]string, len(positions)), make([]int64, len(positions))
	for i, p := range positions {
		streams[i], numbers[i] = p.Stream.String(), int64(min(p.Place(), ordering.MaxPlace))
	}
	return b.readOnly(ctx, t, func(tx *transaction) error {
		_, err := tx.ExecContext(ctx, `SELECT FROM ordering_streams WHERE consumer = $2 AND stream = ANY($1) ORDER BY stream FOR SHARE`, streams, t.consumer)
		if err != nil {
			return err
		}
		return each(ctx, tx, use, lookUp(`unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS w (stream, number, place)`, `true`, `coalesce(s.fence, 0)`),
			t.consumer, streams, numbers)
	})
}

// lookCommands implements backend. To wait for transactions that are writing
// one of the IDs, it inserts the unknown ones itself, and rolls that back.
func (b *postgres) lookCommands(ctx context.Context, t termOf, ids []string, use scanner) error {
	return b.readOnly(ctx, t, func(tx *transaction) error {
		unknown := map[string]bool{}
		err := each(ctx, tx, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			unknown[id] = true
			return err
		}, `INSERT INTO ordering_commands (consumer, id, hash, status, attempts, error, started, ended, decider, reason)
			SELECT $1, id, '', 0, 0, '', 0, 0, '', '' FROM unnest($2::text[]) id ORDER BY id COLLATE "C" ON CONFLICT DO NOTHING RETURNING id`, t.consumer, ids)
		if err != nil {
			return err
		}
		known := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return unknown[id] })
		return each(ctx, tx, use, `SELECT id, `+commandColumns+` FROM ordering_commands WHERE consumer = $1 AND id = ANY($2)`, t.consumer, known)
	})
}

// readOnly runs do in a transaction of the term, if that has not ended, and
// rolls back.
func (b *postgres) readOnly(ctx context.Context, t termOf, do func(tx *transaction) error) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	own := &transaction{Tx: tx}
	if err := b.inTerm(ctx, own, t); err != nil {
		return err
	}
	return do(own)
}

func (b *postgres) rows(ctx context.Context, db queryer, query string, streams []string, args ...any) (rows []row, err error) {
	err = each(ctx, db, func(scan func(...any) error) error {
		var r row
		err := scan(&r.stream, &r.last, &r.spans, &r.ended, &r.fence, &r.parking, &r.closedAt)
		rows = append(rows, r)
		return err
	}, query, append([]any{streams}, args...)...)
	return rows, err
}

// advance implements backend, in one round trip.
func (b *postgres) advance(ctx context.Context, tx *transaction, c *commit) (moved int, err error) {
	if len(c.streams) > few {
		return 0, nil
	}
	args := append(slices.Clip(c.job), c.term.info.Partition, c.term.info.Number, c.term.info.Token)
	for i, stream := range c.streams {
		args = append(args, stream, c.numbers[i], c.fences[i])
	}
	err = tx.QueryRowContext(ctx, advances[len(c.streams)], args...).Scan(&moved)
	return moved, err
}

// few is the largest number of streams for which there is a prepared text.
const few = 8

// advances are the statements for events of 0 to few streams. If the term has
// not ended, each stream is advanced if the one before it was, so that their
// rows are locked in order; the job state is stored if all were. The result is
// the number of streams advanced.
var advances = func() (list [few + 1]string) {
	for n := 1; n <= few; n++ {
		var with, moved strings.Builder
		with.WriteString(`term AS MATERIALIZED (SELECT ordering_in_term($1, $12, $13, $14) AS goes_on), `)
		for i := range n {
			at := 15 + 3*i
			fmt.Fprintf(&with, `moved%d AS (UPDATE ordering_streams SET last = $%[3]d::bigint
				WHERE consumer = $1 AND stream = $%[2]d AND last = $%[3]d::bigint - 1 AND fence = $%[4]d AND spans = 0`, i, at, at+1, at+2)
			if i == 0 {
				with.WriteString(` AND (SELECT goes_on FROM term)`)
			} else {
				fmt.Fprintf(&with, ` AND EXISTS (SELECT FROM moved%d)`, i-1)
				moved.WriteString(` + `)
			}
			with.WriteString(` RETURNING 1), `)
			fmt.Fprintf(&moved, `(SELECT count(*) FROM moved%d)`, i)
		}
		fmt.Fprintf(&with, `job AS (INSERT INTO ordering_jobs (`+jobColumns+`)
			SELECT $1::bigint, $2, $3::bigint, $4, $5::bytea, $6, $7::bigint, $8::bigint, $9, $10::bigint, $11::bigint FROM moved%d `+replaceJob+`)`, n-1)
		list[n] = fmt.Sprintf(`WITH %s SELECT %s`, with.String(), moved.String())
	}
	return list
}()

func (b *postgres) fences(_ termOf, r row, fence int64) bool { return r.fence == fence && fence != 0 }

func (b *postgres) waiting() int { return 0 }

func (b *postgres) close() error { return b.handlers.Close() }
