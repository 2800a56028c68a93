package durable

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/interlock-go/interlock/ordering"
)

// The floor's own tables for what the sequencer's store keeps: how far each
// stream has come, and what became of each message. They are of the same form.
var floorTables = []string{
	`CREATE TABLE positions (stream TEXT PRIMARY KEY, last BIGINT NOT NULL)`,
	`CREATE TABLE jobs (message TEXT PRIMARY KEY, positions TEXT NOT NULL, status BIGINT NOT NULL,
		attempts BIGINT NOT NULL, error TEXT NOT NULL, started BIGINT NOT NULL, ended BIGINT NOT NULL)`,
	`CREATE INDEX jobs_ended ON jobs (ended)`,
}

const (
	upsertPosition = `INSERT INTO positions (stream, last) VALUES ($1, $2)
		ON CONFLICT (stream) DO UPDATE SET last = excluded.last WHERE positions.last = excluded.last - 1`
	insertJob = `INSERT INTO jobs (message, positions, status, attempts, error, started, ended) VALUES ($1, $2, $3, $4, $5, $6, $7)`
)

// floor is what one would write instead: a loop over the messages on one
// connection, with prepared statements. It makes the same transactions as the
// sequencer, effect, positions and job state, without its guarantees.
type floor struct {
	db         *sql.DB
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

const (
	begin    = "BEGIN"
	commit   = "COMMIT"
	rollback = "ROLLBACK"
)

func newFloor(ctx context.Context, d dialect, db *sql.DB) (*floor, error) {
	for _, table := range append(append([]string{}, tables...), floorTables...) {
		if _, err := db.ExecContext(ctx, table); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	f := &floor{db: db, conn: conn, statements: map[string]*sql.Stmt{}}
	for _, text := range []string{begin, commit, rollback, upsertBalance, insertJournal, upsertPosition, insertJob} {
		if f.statements[text], err = conn.PrepareContext(ctx, d.text(text)); err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	return f, nil
}

// run writes entries in their order, as many in a transaction as group says.
func (f *floor) run(ctx context.Context, entries []entry, group int) error {
	for len(entries) > 0 {
		n := min(group, len(entries))
		if err := f.transaction(ctx, entries[:n]); err != nil {
			return errors.Join(err, f.exec(ctx, rollback))
		}
		entries = entries[n:]
	}
	return nil
}

func (f *floor) transaction(ctx context.Context, entries []entry) error {
	if err := f.exec(ctx, begin); err != nil {
		return err
	}
	for i := range entries {
		if err := entries[i].write(ctx, f.exec); err != nil {
			return err
		}
	}
	return f.exec(ctx, commit)
}

// write is an entry's effect, with what the sequencer's store keeps of it.
func (e *entry) write(ctx context.Context, exec execer) error {
	started := time.Now()
	if err := e.apply(ctx, exec); err != nil {
		return err
	}
	for _, p := range e.event.Positions {
		if err := exec(ctx, upsertPosition, p.Stream.String(), int64(p.Number)); err != nil {
			return err
		}
	}
	return exec(ctx, insertJob, e.event.ID, ordering.FormatSequenceID(e.event.Positions), 1, 1, "", started.UnixNano(), time.Now().UnixNano())
}

// pipeline is run on PostgreSQL with all statements of a transaction sent at once.
func (f *floor) pipeline(ctx context.Context, entries []entry, group int) error {
	return f.conn.Raw(func(c any) error {
		conn := c.(*stdlib.Conn).Conn()
		for len(entries) > 0 {
			n := min(group, len(entries))
			batch := &pgx.Batch{}
			batch.Queue(begin)
			for i := range entries[:n] {
				err := entries[i].write(ctx, func(_ context.Context, statement string, args ...any) error {
					batch.Queue(statement, args...)
					return nil
				})
				if err != nil {
					return err
				}
			}
			batch.Queue(commit)
			if err := conn.SendBatch(ctx, batch).Close(); err != nil {
				return err
			}
			entries = entries[n:]
		}
		return nil
	})
}

func (f *floor) exec(ctx context.Context, statement string, args ...any) error {
	_, err := f.statements[statement].ExecContext(ctx, args...)
	return err
}

func (f *floor) close() error { return errors.Join(f.conn.Close(), f.db.Close()) }
