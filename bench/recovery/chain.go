package recovery

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/outbox"
)

// Chain is what the recovery of a chain of events took.
type Chain struct {
	Events   int
	Elapsed  time.Duration // from the offer of the last event to the commit of that
	Requests int           // to the outbox
}

// MeasureChain fills an outbox with n events, and offers the last one to a sequencer
// that has none of them and asks the outbox for the others. The grace time is 1 ms, so
// that it is not what is measured.
func MeasureChain(ctx context.Context, n int) (c Chain, err error) {
	dir, err := os.MkdirTemp("", "interlock-recovery")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	box, last, closeBox, err := fill(ctx, filepath.Join(dir, "producer.db"), n)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, closeBox()) }()
	return recovered(ctx, box, last, filepath.Join(dir, "consumer.db"), n)
}

// fill makes an outbox with n events, and returns the last one.
func fill(ctx context.Context, path string, n int) (box *outbox.Outbox, last *ordering.Event, end func() error, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		return nil, nil, nil, err
	}
	box, err = outbox.New(ctx, db, outbox.SQLite, outbox.Config{})
	var tx *sql.Tx
	if err == nil {
		tx, err = db.BeginTx(ctx, nil)
	}
	for i := 0; i < n && err == nil; i++ {
		last, err = box.Enqueue(ctx, tx, &ordering.Event{Payload: make([]byte, 100)}, link(i), link(i+1))
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, db.Close())
	}
	return box, last, db.Close, nil
}

func link(i int) lockkeys.Key { return lockkeys.Must("link", fmt.Sprint(i)) }

// recovered offers the last event to a sequencer on a new database, and waits for it.
func recovered(ctx context.Context, box *outbox.Outbox, last *ordering.Event, path string, n int) (c Chain, err error) {
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	err = store.Migrate(ctx, "effects", []string{`CREATE TABLE effects (event TEXT NOT NULL)`})
	if err != nil {
		return c, err
	}
	var requests atomic.Int64
	counted := replay.SourceFunc(func(ctx context.Context, asked ordering.Range) (replay.Answer, error) {
		requests.Add(1)
		return box.Fetch(ctx, asked)
	})
	replayer, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "outbox", Source: counted}}})
	if err != nil {
		return c, err
	}
	comes, once := make(chan bool), sync.Once{} // the last event
	seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
		Store: store, Replayer: replayer, GapTimeout: time.Millisecond, Together: store.Together,
		Logger: slog.New(slog.DiscardHandler),
		Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
			if job.Event.ID == last.ID {
				once.Do(func() { close(comes) })
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO effects (event) VALUES ($1)`, job.Event.ID)
			return err
		}),
	})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, seq.Close()) }()
	began := time.Now()
	if err := seq.Offer(ctx, last, nil); err != nil {
		return c, err
	}
	select {
	case <-comes:
	case <-ctx.Done():
		return c, ctx.Err()
	}
	if err := seq.Drain(ctx); err != nil {
		return c, err
	}
	c = Chain{Events: n, Elapsed: time.Since(began), Requests: int(requests.Load())}
	var effects int
	err = store.DB().QueryRowContext(ctx, `SELECT count(*) FROM effects`).Scan(&effects)
	if err == nil && effects != n {
		err = fmt.Errorf("%d effects of %d events", effects, n)
	}
	return c, err
}
