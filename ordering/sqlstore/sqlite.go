package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering"
)

// NewSQLite makes a store of an SQLite database; package sqlite does so from a
// path. The store closes its connections, also on an error.
//
// The store owns the database: opening it takes over all streams, and commits
// of stores opened before are refused with [ordering.ErrFenced].
func NewSQLite(ctx context.Context, s SQLite) (*Store, error) {
	shared := newShared(s)
	store, err := newSQLite(ctx, shared, s)
	if err != nil {
		return nil, errors.Join(err, shared.db.Close(), s.Own.Close(), s.Reads.Close())
	}
	return store, nil
}

func newSQLite(ctx context.Context, shared *shared, s SQLite) (*Store, error) {
	err := shared.alone(func(db *sql.DB) error { return migrate(ctx, db, sqldb.SQLite, "ordering", steps(sqldb.SQLite)) })
	if err != nil {
		return nil, err
	}
	limit, m := &duration{}, &measured{}
	w, err := newWriter(ctx, shared, limit, m)
	if err != nil {
		return nil, err
	}
	return &Store{db: s.Own, reads: s.Reads, writes: shared.db, dialect: sqldb.SQLite, backend: &sqlite{writer: w, reads: s.Own}, commits: &w.commits, limit: limit, measured: m}, nil
}

// sqlite is the backend of an SQLite database.
//
// A stream's row has the fencing token of its last holder, and a token is valid
// if it is equal or newer. So a term that is the only one of its consumer in
// this session acquires a stream without a write: its streams have the token
// that the term began with, which is newer than that of any row. Once another
// partition has begun a term, acquiring a stream writes a new token into its
// row.
type sqlite struct {
	*writer
	reads *sql.DB

	tokens atomic.Int64 // the last token of this session
	mu     struct {
		sync.Mutex
		partitions map[int64]map[string]bool // of which a term has begun in this session, by consumer
	}
}

// begin implements backend.
func (b *sqlite) begin(ctx context.Context, t *termOf) error {
	return b.write(ctx, func(ctx context.Context, tx *transaction) error {
		if err := t.name(ctx, tx); err != nil {
			return err
		}
		b.beside(*t)
		token, err := b.newToken(ctx, tx)
		if err != nil {
			return err
		}
		t.info.Token = token
		if err := t.begin(ctx, tx); err != nil {
			return err
		}
		return b.raise(ctx, tx, t.info.Token)
	})
}

// newToken makes a token that is newer than any before, even if the database
// was restored from an older copy.
func (b *sqlite) newToken(ctx context.Context, tx *transaction) (token int64, err error) {
	err = each(ctx, tx, func(scan func(...any) error) error { return scan(&token) },
		`UPDATE ordering_session SET streams = max(streams + 1, $1) RETURNING streams`, time.Now().UnixMicro())
	if err == nil {
		b.tokens.Store(max(token, b.tokens.Load()))
	}
	return token, err
}

// raise makes later tokens newer than this one.
func (b *sqlite) raise(ctx context.Context, tx *transaction, token int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE ordering_session SET streams = $1 WHERE streams < $1`, token)
	b.tokens.Store(max(token, b.tokens.Load()))
	return err
}

// beside records the partition of a term.
func (b *sqlite) beside(t termOf) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.partitions == nil {
		b.mu.partitions = map[int64]map[string]bool{}
	}
	if b.mu.partitions[t.consumer] == nil {
		b.mu.partitions[t.consumer] = map[string]bool{}
	}
	b.mu.partitions[t.consumer][t.info.Partition] = true
}

// shares reports whether there may be terms of other partitions at the same
// time.
func (b *sqlite) shares(t termOf) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.partitions[t.consumer]) > 1
}

// toChange implements backend: there is one writer.
func (b *sqlite) toChange(context.Context, *transaction, termOf) error { return nil }

// partition identifies the terms of a partition.
type partition struct {
	consumer int64
	name     string
}

// inTerm implements backend. It reads the row once, and again after something other
// than a commit was written: nothing else can change it.
func (b *sqlite) inTerm(ctx context.Context, tx *transaction, t termOf) error {
	key := partition{t.consumer, t.info.Partition}
	latest, ok := tx.staged.terms[key]
	if !ok {
		latest, ok = tx.staged.session.term(key)
	}
	if !ok {
		var err error
		if latest, err = t.current(ctx, tx); err != nil {
			return err
		}
		tx.staged.terms[key] = latest
	}
	return t.check(latest)
}

// writeFor implements backend: there is one writer for all.
func (b *sqlite) writeFor(ctx context.Context, do step, apply effect) error {
	if do == nil {
		return b.await(newRequest(ctx, nothing, func(context.Context, *transaction) error { return nil }, apply))
	}
	return b.await(newRequest(ctx, commits, do, apply))
}

// mayBe reports whether a token is one that was given to a term.
func (b *sqlite) mayBe(t termOf, fence int64) bool {
	return t.info.Token <= fence && fence <= b.tokens.Load()
}

// fences implements backend.
func (b *sqlite) fences(t termOf, r row, fence int64) bool {
	return b.mayBe(t, fence) && r.fence <= fence
}

func affected(r sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}

// lock implements backend: the only writer has all rows to itself.
func (b *sqlite) lock(ctx context.Context, tx *transaction, t termOf, streams []string) ([]row, error) {
	rows := make([]row, len(streams))
	for i, stream := range streams {
		r := &rows[i]
		r.stream = stream
		err := each(ctx, tx, func(scan func(...any) error) error {
			return scan(&r.last, &r.spans, &r.ended, &r.fence, &r.parking, &r.closedAt)
		}, `SELECT last, spans, ended, fence, parking, closed_at FROM ordering_streams WHERE consumer = $1 AND stream = $2`, t.consumer, stream)
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// lockParkings implements backend: likewise.
func (b *sqlite) lockParkings(ctx context.Context, tx *transaction, t termOf, _ []string, fences ordering.Fences) error {
	return b.check(ctx, tx, t, fences)
}

// check implements backend.
func (b *sqlite) check(ctx context.Context, tx *transaction, t termOf, fences ordering.Fences) error {
	for key, fence := range fences {
		stream := key.String()
		rows, err := b.lock(ctx, tx, t, []string{stream})
		if err != nil {
			return err
		}
		if !b.fences(t, rows[0], fence) {
			return t.fenced(ctx, tx, stream, fence)
		}
	}
	return nil
}

// inSession is the condition of a read that a term of this session has not ended: $2 to
// $4 are its partition and tokens, $1 is the consumer.
const inSession = `EXISTS (SELECT 1 FROM ordering_terms t, ordering_session e
	WHERE t.consumer = $1 AND t.part = $2 AND t.token = $3 AND t.ended = 0 AND e.token = $4)`

// read calls use for every row of a query, the first arguments of which are
// those of inSession; use returns errNotInTerm if that does not hold.
func (b *sqlite) read(ctx context.Context, t termOf, use scanner, query string, args ...any) error {
	err := each(ctx, b.reads, use, query, append([]any{t.consumer, t.info.Partition, t.info.Token, b.token}, args...)...)
	if err == errNotInTerm {
		err = t.isOver(ctx, b.reads)
	}
	return err
}

// acquire implements backend. It only reads if possible, since a write would
// have to wait for the disk.
func (b *sqlite) acquire(ctx context.Context, t termOf, streams []string) (rows []row, err error) {
	token := t.info.Token
	if b.shares(t) {
		if token, err = b.take(ctx, t, streams); err != nil {
			return nil, err
		}
	}
	list, err := json.Marshal(streams)
	if err != nil {
		return nil, err
	}
	err = b.read(ctx, t, func(scan func(...any) error) error {
		r := row{fence: token}
		var inTerm bool
		err := scan(&inTerm, &r.stream, &r.last, &r.spans, &r.ended, &r.parking, &r.closedAt, &r.heldAt)
		if err == nil && !inTerm {
			err = errNotInTerm
		}
		rows = append(rows, r)
		return err
	}, `SELECT `+inSession+`, w.value, coalesce(s.last, 0), coalesce(s.spans, 0), coalesce(s.ended, 0), coalesce(s.parking, ''), coalesce(s.closed_at, 0),
			coalesce((SELECT min(number) FROM ordering_held_positions h WHERE h.consumer = $1 AND h.stream = w.value), 0)
		FROM json_each($5) w LEFT JOIN ordering_streams s ON s.consumer = $1 AND s.stream = w.value ORDER BY w.key`, string(list))
	return rows, err
}

// take takes streams over from terms of other partitions.
func (b *sqlite) take(ctx context.Context, t termOf, streams []string) (token int64, err error) {
	err = b.write(ctx, func(ctx context.Context, tx *transaction) (err error) {
		if err = b.inTerm(ctx, tx, t); err != nil {
			return err
		}
		if token, err = b.newToken(ctx, tx); err != nil {
			return err
		}
		for _, stream := range streams {
			if _, err := tx.ExecContext(ctx, `INSERT INTO ordering_streams (consumer, stream, last, fence, part) VALUES ($1, $2, 0, $3, $4)
				ON CONFLICT (consumer, stream) DO UPDATE SET fence = excluded.fence, part = excluded.part`,
				t.consumer, stream, token, t.info.Partition); err != nil {
				return err
			}
		}
		return nil
	})
	return token, err
}

// look implements backend, in one statement, which is consistent. No abandoned
// write can be under way: callers wait for the end of their writes.
func (b *sqlite) look(ctx context.Context, t termOf, positions []ordering.Position, use scanner) error {
	wanted := make([][2]any, len(positions))
	for i, p := range positions {
		wanted[i] = [2]any{p.Stream.String(), min(p.Place(), ordering.MaxPlace)}
	}
	list, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	return b.read(ctx, t, use, lookUp(`(SELECT key AS place, json_extract(value, '$[0]') AS stream, json_extract(value, '$[1]') AS number FROM json_each($5))`,
		inSession, `max(coalesce(s.fence, 0), $3)`), string(list))
}

// lookCommands implements backend. It checks the term after the read: if the
// term has not ended by then, the read was within it.
func (b *sqlite) lookCommands(ctx context.Context, t termOf, ids []string, use scanner) error {
	list, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	err = each(ctx, b.reads, use, `SELECT id, `+commandColumns+` FROM ordering_commands
		WHERE consumer = $1 AND id IN (SELECT value FROM json_each($2))`, t.consumer, string(list))
	if err != nil {
		return err
	}
	return b.read(ctx, t, func(scan func(...any) error) error {
		var inTerm bool
		if err := scan(&inTerm); err != nil || inTerm {
			return err
		}
		return errNotInTerm
	}, `SELECT `+inSession)
}
