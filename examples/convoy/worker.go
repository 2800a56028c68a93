package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/convoy/internal/ledger"
	"github.com/interlock-go/interlock/internal/pause"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// headStart is how much later a worker waits in line for queues that are not
// its home. The broker gives a queue to the first in line, so those that start
// together share the queues.
const headStart = time.Second

// work is what a worker does: it takes part in all queues.
func (o *options) work(ctx context.Context) error {
	store, err := o.Open(ctx)
	if err != nil {
		return unlessLeaving(err)
	}
	queues, ctx := errgroup.WithContext(ctx)
	for partition := range o.Queues {
		queues.Go(func() error {
			if !slices.Contains(o.home, partition) && pause.For(ctx, headStart) != nil {
				return nil
			}
			return o.workOn(ctx, store, partition)
		})
	}
	return errors.Join(queues.Wait(), store.Close())
}

// unlessLeaving returns nil for an error that comes of being asked to leave
// while the work had not begun.
func unlessLeaving(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// workOn takes part in one queue until ctx ends.
func (o *options) workOn(ctx context.Context, store *sqlstore.Store, partition int) error {
	sequencer := func(ctx context.Context) (*ordering.Sequencer[ledger.Transaction], error) {
		return o.beginTerm(ctx, store, partition)
	}
	return own(ctx, sequencer, rabbitmq.ConsumerConfig{
		Endpoint:   o.Endpoint(),
		Queue:      o.Partitions().QueueName(partition),
		DeadLetter: rabbitmq.Address{Key: o.DeadQueue()},
		Tag:        o.name,
	})
}

// beginTerm notes that this worker has become the owner of a queue, and makes
// the sequencer for its orders.
func (o *options) beginTerm(ctx context.Context, store *sqlstore.Store, partition int) (*ordering.Sequencer[ledger.Transaction], error) {
	var term int64
	err := store.DB().QueryRowContext(ctx, `INSERT INTO convoy_terms (queue, worker, began) VALUES ($1, $2, $3) RETURNING term`,
		partition, o.name, time.Now().UnixMicro()).Scan(&term)
	if err != nil {
		return nil, err
	}
	return ordering.New(ctx, ordering.Config[ledger.Transaction]{
		Store:    store,
		Consumer: ordering.Consumer{Partition: o.Partitions().QueueName(partition), Holder: o.name},
		Decode:   decode[ledger.Transaction]("transaction"),
		Handler: func(ctx context.Context, job ordering.Job[ledger.Transaction]) error {
			return o.handle(ctx, store, term, job)
		},
		Owns:       o.owns(partition),
		FailureFor: failure,
		Dispatcher: dispatcher.Config[ordering.Job[ledger.Transaction]]{Workers: o.handlers},
		Logger:     o.Logger,
	})
}

// owns returns a function that reports whether an order is in a partition.
func (o *options) owns(partition int) func(stream lockkeys.Key) bool {
	of := o.Partitions().Owns(partition)
	return func(stream lockkeys.Key) bool { return stream != ledger.Stream && of(stream) }
}

// failure lets an order go on without a transaction that its state does not
// allow, which is recorded. When the database is at fault the worker ends, and
// another one takes over. For all else the order is parked.
func failure(_ ordering.Job[ledger.Transaction], err error) dispatcher.FailurePolicy {
	if dispatcher.IsPermanent(err) {
		return dispatcher.DeadLetter
	}
	return dispatcher.Park
}

// handle applies a transaction. The effect, the record of the run and the
// numbers become durable together, or not at all if another worker has become
// the owner meanwhile.
func (o *options) handle(ctx context.Context, store *sqlstore.Store, term int64, job ordering.Job[ledger.Transaction]) error {
	began := time.Now()
	if err := pause.For(ctx, o.latency); err != nil {
		return err
	}
	return store.Do(ctx, job, func(ctx context.Context, tx *sql.Tx) error {
		if err := apply(ctx, tx, job.Value); err != nil {
			return err
		}
		for _, p := range job.Event.Positions {
			if _, err := tx.ExecContext(ctx, `INSERT INTO convoy_runs (event, stream, number, term, began, ended) VALUES ($1, $2, $3, $4, $5, $6)`,
				job.Event.Name(), p.Stream.String(), int64(p.Number), term, began.UnixMicro(), time.Now().UnixMicro()); err != nil {
				return err
			}
		}
		return nil
	})
}

// decode returns a function that reads the body of an event, which is said to be
// what.
func decode[T any](what string) func(e *ordering.Event) (T, error) {
	return func(e *ordering.Event) (value T, err error) {
		if err = json.Unmarshal(e.Payload, &value); err != nil {
			err = fmt.Errorf("%s: %w", what, err)
		}
		return value, err
	}
}
