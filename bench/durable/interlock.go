package durable

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	pgstore "github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

// interlock is a sequencer whose handlers commit their effect with the numbers
// of their event.
type interlock struct {
	store      *sqlstore.Store
	seq        *ordering.Sequencer[*ordering.Event]
	statements map[string]*sql.Stmt
	entries    []entry // those of the run, which events are places in
	failed     chan error
}

// newInterlock takes the store over and makes the ledger's tables in it. The handlers
// have a transaction of database/sql.
func newInterlock(ctx context.Context, d dialect, workers int, store *sqlstore.Store) (_ *interlock, err error) {
	i := &interlock{statements: map[string]*sql.Stmt{}}
	return i, i.open(ctx, d, workers, store, sqlstore.InTx(store, i.handle))
}

// newQueueing is newInterlock with handlers that queue their statements.
func newQueueing(ctx context.Context, workers int, store *sqlstore.Store) (*interlock, error) {
	i := &interlock{statements: map[string]*sql.Stmt{}}
	return i, i.open(ctx, postgres, workers, store, pgstore.InTx(store, func(ctx context.Context, tx *pgstore.Tx, job ordering.Job[*ordering.Event]) error {
		return i.entry(job).apply(ctx, func(_ context.Context, statement string, args ...any) error {
			tx.Queue(statement, args...)
			return nil
		})
	}))
}

func (i *interlock) open(ctx context.Context, d dialect, workers int, store *sqlstore.Store, handler ordering.Handler[*ordering.Event]) (err error) {
	i.store, i.failed = store, make(chan error, 1)
	if err := store.Migrate(ctx, "ledger", tables); err != nil {
		return errors.Join(err, store.Close())
	}
	for _, text := range []string{upsertBalance, insertJournal} {
		if i.statements[text], err = store.Prepare(ctx, d.text(text)); err != nil {
			return errors.Join(err, store.Close())
		}
	}
	i.seq, err = ordering.New(ctx, ordering.Config[*ordering.Event]{
		Store: store, Handler: handler, Together: store.Together, Failure: dispatcher.Stop,
		Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{Workers: workers, MaxPending: queued},
		Logger:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	return nil
}

func (i *interlock) handle(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
	return i.entry(job).apply(ctx, func(ctx context.Context, statement string, args ...any) error {
		_, err := tx.StmtContext(ctx, i.statements[statement]).ExecContext(ctx, args...)
		return err
	})
}

func (i *interlock) entry(job ordering.Job[*ordering.Event]) *entry {
	return &i.entries[binary.LittleEndian.Uint64(job.Event.Payload)]
}

// run offers entries and waits until all were applied.
func (i *interlock) run(ctx context.Context, entries []entry) error {
	i.entries = entries
	for k := range entries {
		if err := i.seq.Offer(ctx, entries[k].event, i.done); err != nil {
			return err
		}
	}
	if err := i.seq.Drain(ctx); err != nil {
		return err
	}
	select {
	case err := <-i.failed:
		return err
	default:
		return nil
	}
}

func (i *interlock) done(e *ordering.Event, o ordering.Outcome) {
	if o.Result != ordering.Applied {
		err := fmt.Errorf("%s was not applied: %v", e.Name(), o.Result)
		select {
		case i.failed <- errors.Join(err, o.Err):
		default:
		}
	}
}

func (i *interlock) close() error { return errors.Join(i.seq.Close(), i.store.Close()) }
