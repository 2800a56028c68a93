package durable

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
)

// loop is what one would write instead: a loop over the messages on one connection, with
// prepared statements. It makes the same transactions as the sequencer, effect, positions
// and job state, without its guarantees.
type loop struct {
	conn       *sql.Conn
	statements map[string]*sql.Stmt
	group      int  // messages in a transaction
	pipelined  bool // all statements of a transaction are sent at once: PostgreSQL only
}

// loopTables are for what the sequencer's store keeps: how far each stream has come, and
// what became of each message. They are of the same form.
var loopTables = []string{
	`CREATE TABLE positions (stream TEXT PRIMARY KEY, last BIGINT NOT NULL)`,
	`CREATE TABLE jobs (message TEXT PRIMARY KEY, positions TEXT NOT NULL, status BIGINT NOT NULL,
		attempts BIGINT NOT NULL, error TEXT NOT NULL, started BIGINT NOT NULL, ended BIGINT NOT NULL)`,
	`CREATE INDEX jobs_ended ON jobs (ended)`,
}

const (
	begin          = "BEGIN"
	commit         = "COMMIT"
	upsertPosition = `INSERT INTO positions (stream, last) VALUES ($1, $2)
		ON CONFLICT (stream) DO UPDATE SET last = excluded.last WHERE positions.last = excluded.last - 1`
	insertJob = `INSERT INTO jobs (message, positions, status, attempts, error, started, ended) VALUES ($1, $2, $3, $4, $5, $6, $7)`
)

func byLoop(group int, pipelined bool) opener {
	return func(t testing.TB, d database) (writer, *sql.DB) {
		db, err := sql.Open(d.driver, d.dsn)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		for _, table := range slices.Concat(tables, loopTables) {
			_, err := db.ExecContext(t.Context(), table)
			require.NoError(t, err)
		}
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
		l := loop{conn, map[string]*sql.Stmt{}, group, pipelined}
		for _, text := range []string{begin, commit, upsertBalance, insertJournal, upsertPosition, insertJob} {
			l.statements[text], err = conn.PrepareContext(t.Context(), text)
			require.NoError(t, err)
		}
		return l.write, db
	}
}

func (l loop) write(ctx context.Context, entries []entry) error {
	for some := range slices.Chunk(entries, l.group) {
		var err error
		if l.pipelined {
			err = l.send(ctx, some)
		} else {
			err = transaction(ctx, some, l.exec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l loop) exec(ctx context.Context, statement string, args ...any) error {
	_, err := l.statements[statement].ExecContext(ctx, args...)
	return err
}

// send sends a transaction in one step.
func (l loop) send(ctx context.Context, entries []entry) error {
	return l.conn.Raw(func(c any) error {
		batch := &pgx.Batch{}
		err := transaction(ctx, entries, func(_ context.Context, statement string, args ...any) error {
			batch.Queue(statement, args...)
			return nil
		})
		if err != nil {
			return err
		}
		return c.(*stdlib.Conn).Conn().SendBatch(ctx, batch).Close()
	})
}

// transaction writes the entries' effects, with what the sequencer's store keeps of them.
func transaction(ctx context.Context, entries []entry, exec execer) error {
	if err := exec(ctx, begin); err != nil {
		return err
	}
	for _, e := range entries {
		started := time.Now()
		if err := e.apply(ctx, exec); err != nil {
			return err
		}
		for _, p := range e.event.Positions {
			if err := exec(ctx, upsertPosition, p.Stream.String(), int64(p.Number)); err != nil {
				return err
			}
		}
		if err := exec(ctx, insertJob, e.event.ID, ordering.FormatSequenceID(e.event.Positions), 1, 1, "", started.UnixNano(), time.Now().UnixNano()); err != nil {
			return err
		}
	}
	return exec(ctx, commit)
}
