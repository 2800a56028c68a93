package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

// byInterlock is a sequencer whose handlers commit their effect with the numbers of their
// event. They wait for each of their statements, unless they are queueing: on PostgreSQL,
// a handler that needs no answers only queues them.
func byInterlock(workers int, queueing bool) opener {
	return func(t testing.TB, d database) (writer, *sql.DB) {
		store, err := d.open(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		require.NoError(t, store.Migrate(t.Context(), "ledger", tables))
		statements := map[string]*sql.Stmt{}
		for _, text := range []string{upsertBalance, insertJournal} {
			statements[text], err = store.Prepare(t.Context(), text)
			require.NoError(t, err)
		}
		handler := sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[entry]) error {
			return job.Value.apply(ctx, func(ctx context.Context, statement string, args ...any) error {
				_, err := tx.StmtContext(ctx, statements[statement]).ExecContext(ctx, args...)
				return err
			})
		})
		if queueing {
			handler = postgres.InTx(store, func(ctx context.Context, tx *postgres.Tx, job ordering.Job[entry]) error {
				return job.Value.apply(ctx, func(_ context.Context, statement string, args ...any) error {
					tx.Queue(statement, args...)
					return nil
				})
			})
		}
		seq, err := ordering.New(t.Context(), ordering.Config[entry]{
			Store: store, Decode: decode, Handler: handler, Together: store.Together, Failure: dispatcher.Stop,
			Dispatcher: dispatcher.Config[ordering.Job[entry]]{Workers: workers},
			Logger:     slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, seq.Close()) })
		return func(ctx context.Context, entries []entry) error { return offer(ctx, seq, entries) }, store.DB()
	}
}

// offer offers entries and waits until all were applied.
func offer(ctx context.Context, seq *ordering.Sequencer[entry], entries []entry) error {
	failed := make(chan error, 1)
	for i := range entries {
		err := seq.Offer(ctx, entries[i].event, func(e *ordering.Event, o ordering.Outcome) {
			if o.Result != ordering.Applied {
				select {
				case failed <- errors.Join(fmt.Errorf("%s was not applied: %v", e.Name(), o.Result), o.Err):
				default:
				}
			}
		})
		if err != nil {
			return err
		}
	}
	if err := seq.Drain(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
