package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering"
)

// NewPostgres makes a store of a PostgreSQL database that is opened already;
// package postgres does so from a URL. Each commit takes one connection, so db
// should have as many as there are workers, and a few more. The store closes
// db, also on an error.
func NewPostgres(ctx context.Context, db *sql.DB) (*Store, error) {
	if err := schemaError(sqldb.Migrate(ctx, db, sqldb.PostgreSQL, "ordering", steps(sqldb.PostgreSQL))); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	b := &postgres{db: db}
	return &Store{db: db, dialect: sqldb.PostgreSQL, backend: b, commits: &b.commits, closed: make(chan struct{})}, nil
}

// postgres is the backend of a PostgreSQL database. Who waits for the row of
// a stream holds none that sorts behind it, so transactions do not deadlock.
// The exception is advance, which does not sort: it finds rows to wait for only
// if two holders, one of whom has lost his streams, commit the same numbers at
// the same time; the server ends one of them with an error then.
type postgres struct {
	db      *sql.DB
	commits atomic.Int64
}

func (b *postgres) write(ctx context.Context, _ string, do func(ctx context.Context, tx *sql.Tx) error) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of what was not committed
	if err := do(ctx, tx); err != nil {
		return err
	}
	err = tx.Commit()
	if err == nil {
		b.commits.Add(1)
	}
	return err
}

// takeOver gives streams new tokens. It need not be on the disk when it
// returns: if the server crashes and forgets it, the old token is good again
// and the new one refused, so that there is one holder still, who can commit.
const takeOver = `
	WITH taken AS (
		INSERT INTO ordering_streams (stream, last, fence)
		SELECT stream, 0, 1 FROM unnest($1::text[]) stream ORDER BY stream COLLATE "C"
		ON CONFLICT (stream) DO UPDATE SET fence = ordering_streams.fence + 1
		RETURNING stream, last, spans, ended, fence, parking, closed_at)
	SELECT * FROM taken ORDER BY stream`

func (b *postgres) acquire(ctx context.Context, streams []string) (rows []row, err error) {
	err = b.write(ctx, "acquire", func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `SET LOCAL synchronous_commit = off`); err != nil {
			return err
		}
		rows, err = b.rows(ctx, tx, takeOver, streams)
		return err
	})
	return rows, err
}

func (b *postgres) lock(ctx context.Context, tx *sql.Tx, streams []string) ([]row, error) {
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

func (b *postgres) lockParking(ctx context.Context, tx *sql.Tx, parking string, positions []ordering.Position) error {
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(496362878346)`); err != nil { // any number
		return err
	}
	streams := make([]string, len(positions))
	for i, p := range positions {
		streams[i] = p.Stream.String()
	}
	_, err := tx.ExecContext(ctx, `SELECT 1 FROM ordering_streams WHERE stream = ANY($1) OR parking = $2 ORDER BY stream FOR UPDATE`, streams, parking)
	return err
}

func (b *postgres) rows(ctx context.Context, tx *sql.Tx, query string, streams []string) (rows []row, err error) {
	err = each(ctx, tx, func(scan func(...any) error) error {
		var r row
		err := scan(&r.stream, &r.last, &r.spans, &r.ended, &r.fence, &r.parking, &r.closedAt)
		rows = append(rows, r)
		return err
	}, query, streams)
	return rows, err
}

// advance moves the streams whose next number it is, in one round trip, and
// keeps the job state if that was all of them.
const advance = `
	WITH moved AS (
		UPDATE ordering_streams s SET last = wanted.number
		FROM unnest($8::text[], $9::bigint[], $10::bigint[]) AS wanted (stream, number, fence)
		WHERE s.stream = wanted.stream AND s.last = wanted.number - 1 AND s.fence = wanted.fence AND s.spans = 0
		RETURNING s.stream
	), job AS (
		INSERT INTO ordering_jobs (event, positions, status, attempts, error, started, ended)
		SELECT $1, $2, $3, $4, $5, $6, $7 WHERE (SELECT count(*) FROM moved) = cardinality($8)
		ON CONFLICT (event) DO UPDATE SET positions = excluded.positions, status = excluded.status,
			attempts = excluded.attempts, error = excluded.error, started = excluded.started, ended = excluded.ended)
	SELECT stream FROM moved`

// position implements backend.
func (b *postgres) position(ctx context.Context, tx *sql.Tx, c *commit) (bool, error) {
	var moved []string
	err := each(ctx, tx, func(scan func(...any) error) error {
		var stream string
		err := scan(&stream)
		moved = append(moved, stream)
		return err
	}, advance, append(jobArgs(c.JobState), c.streams, c.numbers, c.fences)...)
	if err == nil && len(moved) > 0 && len(moved) < len(c.streams) {
		err = errPartly
	}
	return len(moved) > 0, err
}

func (b *postgres) fences(r row, fence int64) bool { return r.fence == fence && fence != 0 }

func (b *postgres) writes() *sql.DB { return b.db }

func (b *postgres) waiting() int { return 0 }

func (b *postgres) close() error { return nil }
