package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
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
	Handlers *sql.DB // for [Store.Do] and commits: one [Session] for each handler at work
	Own      *sql.DB // for all other work of the store; a few connections
	Reads    *sql.DB // for [Store.DB]
}

// NewPostgres makes a store of an open PostgreSQL database; package postgres makes one
// from a URL. The store closes the pools, even if NewPostgres fails. The error wraps
// [ErrPooled] if a pooler shares the server's sessions between connections.
func NewPostgres(ctx context.Context, p Pools) (*Store, error) {
	err := sqldb.CheckSessions(ctx, p.Own)
	if err == nil {
		err = migrate(ctx, p.Own, sqldb.PostgreSQL, "ordering", steps(sqldb.PostgreSQL))
	}
	if err != nil {
		return nil, errors.Join(err, p.Handlers.Close(), p.Own.Close(), p.Reads.Close())
	}
	b := &postgres{db: p.Own, handlers: p.Handlers, limit: &duration{}, measured: &measured{}}
	return &Store{db: p.Own, reads: p.Reads, writes: p.Handlers, dialect: sqldb.PostgreSQL, backend: b, commits: &b.commits, limit: b.limit, measured: b.measured}, nil
}

// ErrPooled is wrapped by the error of opening a PostgreSQL database through a
// pooler that shares sessions between connections, such as PgBouncer with
// pool_mode=transaction or statement. Connect directly, or through a pooler
// with pool_mode=session.
var ErrPooled = sqldb.ErrPooled

// postgres is the backend of a PostgreSQL database. Rows of streams are locked
// in the order of the streams, so that transactions cannot deadlock on them.
//
// The numbers of an event are written after its effect, together with the COMMIT, in
// one round trip: if they cannot be done, the transaction fails. So a commit holds no
// lock before it is sent, and if the connection is lost then, it may be carried out at
// any time after that, until its session has ended. So whoever wants to know its
// outcome must call settle first.
type postgres struct {
	db       *sql.DB
	handlers *sql.DB
	limit    *duration // of an effect
	measured *measured
	commits  atomic.Int64
	doubts   doubts
}

func (b *postgres) alone(_ context.Context, do func(db *sql.DB) error) error { return do(b.db) }

// write implements backend, for the store's own work.
func (b *postgres) write(ctx context.Context, do step) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of what was not committed
	if err := do(ctx, &transaction{Tx: tx}); err != nil {
		return err
	}
	committing := b.measured.begin()
	if err := tx.Commit(); err != nil {
		return err
	}
	b.committed(committing, 0)
	return nil
}

// writeFor implements backend. The wait for a connection does not count as time of the
// attempt, so effects that hang do not use it up.
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
	var session Session
	if err := conn.Raw(func(c any) error { session, _ = c.(Session); return nil }); err != nil {
		return err
	}
	if session == nil {
		return errors.New("sqlstore: the connections of Pools.Handlers are no Sessions")
	}
	return b.transact(ctx, conn, session, do, apply)
}

func (b *postgres) transact(ctx context.Context, conn *sql.Conn, session Session, do step, apply effect) error {
	// Package database/sql must not roll back by itself when ctx ends, while the effect
	// uses the connection.
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of what was not committed
	own := &transaction{Tx: tx, session: session}
	if do != nil {
		err = do(ctx, own)
	}
	if err == nil && apply != nil {
		limited, cancel := b.limit.context(ctx)
		err = apply.run(limited, tx)
		cancel()
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if lost := tx.Rollback(); lost != nil && !errors.Is(lost, sql.ErrTxDone) && ctx.Err() == nil {
			return errors.Join(err, lost) // also if it came to light in the caller's effect
		}
		return err
	}
	session.CommitWith(ctx, withCommit(own.commits))
	committing := b.measured.begin()
	switch err := tx.Commit(); {
	case err == nil:
		b.committed(committing, len(own.commits))
		return nil
	case session.InDoubt():
		b.doubts.add(session.Lock())
		return err
	case errors.Is(err, ErrEnded):
		return &effectError{err}
	case errors.Is(err, sql.ErrTxDone):
		return &effectError{ErrEnded}
	default:
		return b.explain(ctx, own, commitError(err))
	}
}

// committed counts a transaction, whose COMMIT was sent then.
func (b *postgres) committed(sent time.Time, events int) {
	b.commits.Add(1)
	b.measured.end(sent, events)
}

// explain returns the error of a transaction whose statements have failed.
func (b *postgres) explain(ctx context.Context, tx *transaction, err error) error {
	var failed *StatementError
	switch {
	case !errors.As(err, &failed):
		return err
	case failed.Own:
		return b.refused(ctx, tx.commits, failed.Err)
	}
	return &effectError{failed.Err}
}

// commitError marks the error of a commit as the effect's if the server refused what
// was written: because of a deferred constraint, or of another transaction if both are
// serializable.
func commitError(err error) error {
	const constraint, conflict = "23", "40" // classes of errors
	var server interface{ SQLState() string }
	if errors.As(err, &server) && !errors.As(err, new(*StatementError)) {
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

// inTerm implements backend.
func (b *postgres) inTerm(ctx context.Context, tx *transaction, t termOf) error {
	var goesOn bool
	err := tx.QueryRowContext(ctx, `SELECT ordering_in_term($1, $2, $3, $4)`, t.consumer, t.info.Partition, t.info.Number, t.info.Token).Scan(&goesOn)
	if err == nil && !goesOn {
		err = t.isOver(ctx, tx)
	}
	return err
}

// acquire implements backend, in one round trip.
func (b *postgres) acquire(ctx context.Context, t termOf, streams []string) (rows []row, err error) {
	err = each(ctx, b.db, func(scan func(...any) error) error {
		var r row
		var done sql.NullString
		err := scan(&r.stream, &r.last, &r.ended, &r.fence, &r.parking, &r.closedAt, &r.heldAt, &done)
		if err == nil && done.Valid {
			err = json.Unmarshal([]byte(done.String), &r.done)
		}
		rows = append(rows, r)
		return err
	}, `SELECT * FROM ordering_acquire($1, $2, $3, $4, $5)`, t.consumer, t.info.Partition, t.info.Number, t.info.Token, streams)
	if err == nil && len(rows) == 0 {
		err = t.isOver(ctx, b.db)
	}
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

func (b *postgres) lockParkings(ctx context.Context, tx *transaction, t termOf, parkings []string, fences ordering.Fences) error {
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('ordering_parkings', $1))`, t.consumer); err != nil {
		return err
	}
	return b.compare(ctx, tx, t, fences, `SELECT stream, fence FROM ordering_streams
		WHERE consumer = $2 AND (stream = ANY($1) OR parking = ANY($3) AND parking <> '') ORDER BY stream FOR UPDATE`, parkings)
}

// check implements backend.
func (b *postgres) check(ctx context.Context, tx *transaction, t termOf, fences ordering.Fences) error {
	return b.compare(ctx, tx, t, fences, `SELECT stream, fence FROM ordering_streams
		WHERE consumer = $2 AND stream = ANY($1) ORDER BY stream FOR NO KEY UPDATE`)
}

// compare checks tokens against those that a query returns, with their streams. The
// first argument of the query is the list of the streams, the second one the consumer.
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

// lookCommands implements backend, in one round trip.
func (b *postgres) lookCommands(ctx context.Context, t termOf, ids []string, use scanner) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	err := each(ctx, b.db, use, `SELECT id, `+commandColumns+` FROM ordering_known($1, $2, $3, $4, $5)`,
		t.consumer, t.info.Partition, t.info.Number, t.info.Token, ids)
	if isState(err, stateOver) {
		err = t.isOver(ctx, b.db)
	}
	return err
}

// readOnly runs do in a transaction of the term, if that has not ended, and rolls back.
// While do runs, no commit is in doubt.
func (b *postgres) readOnly(ctx context.Context, t termOf, do func(tx *transaction) error) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
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

func (b *postgres) fences(_ termOf, r row, fence int64) bool { return r.fence == fence && fence != 0 }

func (b *postgres) waiting() int { return 0 }

func (b *postgres) close() error { return b.handlers.Close() }
