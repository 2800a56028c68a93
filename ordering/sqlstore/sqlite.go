package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering"
)

// NewSQLite makes a store of an SQLite database; package sqlite does so from a
// path. The store closes its connections, also on an error.
//
// The store has the database to itself: who opens it takes all streams over,
// and commits of those who opened it before are refused with
// [ordering.ErrFenced].
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
	limit := &duration{}
	w, err := newWriter(ctx, shared, limit)
	if err != nil {
		return nil, err
	}
	return &Store{db: s.Own, reads: s.Reads, writes: shared.db, dialect: sqldb.SQLite, backend: &sqlite{w, s.Own}, commits: &w.commits, limit: limit}, nil
}

// sqlite is the backend of an SQLite database.
type sqlite struct {
	*writer
	reads *sql.DB
}

// writeFor implements backend: there is one writer for all.
func (b *sqlite) writeFor(ctx context.Context, do step, apply effect) error {
	return b.await(newRequest(ctx, do, apply))
}

// advance implements backend.
func (b *sqlite) advance(ctx context.Context, tx *transaction, c *commit) (moved int, err error) {
	for _, fence := range c.fences {
		if fence != b.token {
			return 0, nil
		}
	}
	if moved, err = move(ctx, tx, c); err != nil || moved < len(c.streams) {
		return moved, err
	}
	return moved, c.putJob(ctx, tx)
}

const (
	firstNumber = `INSERT INTO ordering_streams (stream, last) VALUES ($1, 1)
		ON CONFLICT (stream) DO UPDATE SET last = 1 WHERE last = 0 AND spans = 0`
	nextNumber = `UPDATE ordering_streams SET last = $2 WHERE stream = $1 AND last = $2 - 1 AND spans = 0`
)

// move moves streams on to the numbers of an event, up to the first that is
// not at the number before.
func move(ctx context.Context, tx *transaction, c *commit) (moved int, err error) {
	for i, stream := range c.streams {
		var n int
		if number := c.numbers[i]; number == 1 {
			n, err = affected(tx.ExecContext(ctx, firstNumber, stream))
		} else {
			n, err = affected(tx.ExecContext(ctx, nextNumber, stream, number))
		}
		if err != nil || n == 0 {
			return i, err
		}
	}
	return len(c.streams), nil
}

func affected(r sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}

// lock implements backend: the only writer has all rows to itself.
func (b *sqlite) lock(ctx context.Context, tx *transaction, streams []string) ([]row, error) {
	rows := make([]row, len(streams))
	for i, stream := range streams {
		r := &rows[i]
		r.stream, r.fence = stream, b.token
		err := each(ctx, tx, func(scan func(...any) error) error {
			return scan(&r.last, &r.spans, &r.ended, &r.parking, &r.closedAt)
		}, `SELECT last, spans, ended, parking, closed_at FROM ordering_streams WHERE stream = $1`, stream)
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// lockParking implements backend: likewise.
func (b *sqlite) lockParking(ctx context.Context, tx *transaction, _ string, fences ordering.Fences) error {
	return b.check(ctx, tx, fences)
}

// acquire implements backend. It only reads, since a write would have to wait
// for the disk: all streams are this session's.
func (b *sqlite) acquire(ctx context.Context, streams []string) (rows []row, err error) {
	list, err := json.Marshal(streams)
	if err != nil {
		return nil, err
	}
	err = each(ctx, b.reads, func(scan func(...any) error) error {
		r := row{fence: b.token}
		err := scan(&r.stream, &r.last, &r.spans, &r.ended, &r.parking, &r.closedAt, &r.heldAt)
		rows = append(rows, r)
		return err
	}, `SELECT w.value, coalesce(s.last, 0), coalesce(s.spans, 0), coalesce(s.ended, 0), coalesce(s.parking, ''), coalesce(s.closed_at, 0),
			coalesce((SELECT min(number) FROM ordering_held_positions h WHERE h.stream = w.value), 0)
		FROM json_each($1) w LEFT JOIN ordering_streams s ON s.stream = w.value ORDER BY w.key`, string(list))
	return rows, err
}

// look implements backend, in a transaction of its own, which sees one moment.
// There are no writes under way that anybody has given up: those who write wait
// for the end.
func (b *sqlite) look(ctx context.Context, positions []ordering.Position, use scanner) error {
	wanted := make([][2]any, len(positions))
	for i, p := range positions {
		wanted[i] = [2]any{p.Stream.String(), min(p.Number, ordering.MaxNumber)}
	}
	list, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	return each(ctx, b.reads, use, lookUp(`(SELECT key AS place, json_extract(value, '$[0]') AS stream, json_extract(value, '$[1]') AS number FROM json_each($1))`,
		`(SELECT token FROM ordering_session)`), string(list))
}

// check implements backend: the transaction was begun in this session.
func (b *sqlite) check(_ context.Context, _ *transaction, fences ordering.Fences) error {
	for key, fence := range fences {
		if fence != b.token {
			return fenced(key.String(), fence)
		}
	}
	return nil
}

func (b *sqlite) fences(_ row, fence int64) bool { return fence == b.token }
