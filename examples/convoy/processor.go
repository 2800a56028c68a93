package main

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/convoy/internal/ledger"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/replay/outbox"
)

// process is what a ledger processor does. Ledger messages are numbered too,
// so each is walked once, and in order: the numbers of its transactions and the
// outbox that they are sent from are committed with its own number.
func (o *options) process(ctx context.Context) (err error) {
	store, err := o.Open(ctx)
	if err != nil {
		return unlessLeaving(err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	box, err := outbox.New(ctx, store.DB(), outbox.PostgreSQL, outbox.Config{Check: o.Partitions().Check})
	if err != nil {
		return unlessLeaving(err)
	}
	publisher, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{Endpoint: o.Endpoint(), Route: o.Partitions().Route})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		err = errors.Join(err, publisher.Shutdown(ctx))
	}()
	relay, err := outbox.NewRelay(box, publisher, outbox.RelayConfig{Logger: o.Logger})
	if err != nil {
		return err
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return relay.Run(ctx) })
	parts.Go(func() error { return o.walkLedgers(ctx, store, box) })
	return parts.Wait()
}

// walkLedgers takes ledger messages until ctx ends.
func (o *options) walkLedgers(ctx context.Context, store *sqlstore.Store, box *outbox.Outbox) error {
	sequencer := func(ctx context.Context) (*ordering.Sequencer[ledger.Message], error) {
		return ordering.New(ctx, ordering.Config[ledger.Message]{
			Store:    store,
			Consumer: ordering.Consumer{Partition: o.LedgerQueue(), Holder: o.name},
			Decode:   decode[ledger.Message]("ledger message"),
			Handler: func(ctx context.Context, job ordering.Job[ledger.Message]) error {
				defer box.Notify()
				return store.Do(ctx, job, func(ctx context.Context, tx *sql.Tx) error { return o.walk(ctx, tx, box, job.Value) })
			},
			Owns:   func(stream lockkeys.Key) bool { return stream == ledger.Stream },
			Logger: o.Logger,
		})
	}
	return own(ctx, sequencer, rabbitmq.ConsumerConfig{
		Endpoint:   o.Endpoint(),
		Queue:      o.LedgerQueue(),
		DeadLetter: rabbitmq.Address{Key: o.DeadQueue()},
		Tag:        o.name,
	})
}

// walk fans a ledger message out: it numbers each transaction and puts it into
// the outbox. What can never be sent is recorded with the reason, and takes no
// number, or those behind it would wait for it.
func (o *options) walk(ctx context.Context, tx *sql.Tx, box *outbox.Outbox, l ledger.Message) error {
	for _, t := range l.Transactions {
		e, err := t.Event()
		if err == nil {
			if _, err = box.Enqueue(ctx, tx, e); err != nil && !isRefusal(err) {
				return err
			}
		}
		if err == nil {
			continue
		}
		o.Logger.Error("transaction refused", "transaction", t.ID, "err", err)
		if _, err := tx.ExecContext(ctx, `INSERT INTO convoy_refusals (transaction, reason) VALUES ($1, $2)`, toText(t.ID), toText(err.Error())); err != nil {
			return err
		}
	}
	return nil
}

// isRefusal reports whether an error says that the outbox refuses the event, and
// not that the database has failed.
func isRefusal(err error) bool {
	return errors.Is(err, outbox.ErrEnded) || errors.Is(err, outbox.ErrDuplicateID) || errors.Is(err, outbox.ErrOtherEvent) ||
		errors.As(err, new(*ordering.EventError)) || dispatcher.IsPermanent(err) // that of Check
}

// toText returns the string in a form that the database can store.
func toText(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }
