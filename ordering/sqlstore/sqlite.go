package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering"
)

// NewSQLite makes a store of SQLite databases that are opened already; package
// sqlite does so from a path. writes has one connection, whose transactions
// begin as IMMEDIATE; reads has several. The store closes both, also on an
// error.
//
// The store has the database to itself: who opens it takes all streams over,
// and commits of those who opened it before are refused with
// [ordering.ErrFenced]. Constraints of the caller's tables must not be deferred:
// those that one event breaks at the end would fail the others of its group.
func NewSQLite(ctx context.Context, writes, reads *sql.DB) (*Store, error) {
	err := migrate(ctx, writes, sqldb.SQLite, "ordering", steps(sqldb.SQLite))
	if err != nil {
		return nil, errors.Join(err, writes.Close(), reads.Close())
	}
	w, err := newWriter(ctx, writes)
	if err != nil {
		return nil, errors.Join(err, writes.Close(), reads.Close())
	}
	return &Store{db: reads, writes: writes, dialect: sqldb.SQLite, backend: &sqlite{w, reads}, commits: &w.commits}, nil
}

// sqlite is the backend of an SQLite database.
type sqlite struct {
	*writer
	reads *sql.DB
}

// advance implements backend.
func (b *sqlite) advance(ctx context.Context, tx *sql.Tx, c *commit) (moved int, err error) {
	for _, fence := range c.fences {
		if fence != b.token {
			return 0, nil
		}
	}
	for i, stream := range c.streams {
		var result sql.Result
		if n := c.numbers[i]; n == 1 {
			result, err = tx.StmtContext(ctx, b.first).ExecContext(ctx, stream)
		} else {
			result, err = tx.StmtContext(ctx, b.next).ExecContext(ctx, n, stream)
		}
		if err != nil {
			return i, err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return i, err
		}
	}
	_, err = tx.StmtContext(ctx, b.job).ExecContext(ctx, jobArgs(c.JobState)...)
	return len(c.streams), err
}

// lock implements backend: the only writer has all rows to itself.
func (b *sqlite) lock(ctx context.Context, tx *sql.Tx, streams []string) ([]row, error) {
	return b.rows(ctx, tx, streams)
}

// lockParking implements backend: likewise.
func (b *sqlite) lockParking(context.Context, *sql.Tx, string, []ordering.Position) error { return nil }

// acquire implements backend. It only reads, since a write would have to wait
// for the disk: all streams are this session's.
func (b *sqlite) acquire(ctx context.Context, streams []string) ([]row, error) {
	return b.rows(ctx, b.reads, streams)
}

func (b *sqlite) rows(ctx context.Context, db queryer, streams []string) ([]row, error) {
	rows := make([]row, len(streams))
	index := make(map[string]int, len(streams))
	for i, stream := range streams {
		rows[i] = row{stream: stream, fence: b.token}
		index[stream] = i
	}
	for len(streams) > 0 {
		part := streams[:min(len(streams), chunk)]
		streams = streams[len(part):]
		err := each(ctx, db, func(scan func(...any) error) error {
			var stream string
			var r row
			if err := scan(&stream, &r.last, &r.spans, &r.ended, &r.parking, &r.closedAt); err != nil {
				return err
			}
			r.stream, r.fence = stream, b.token
			rows[index[stream]] = r
			return nil
		}, `SELECT stream, last, spans, ended, parking, closed_at FROM ordering_streams WHERE stream `+among(len(part), 0), anys(part)...)
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func (b *sqlite) fences(_ row, fence int64) bool { return fence == b.token }
