package orders

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/examples/orders/parts"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/replay/saga"
)

// sagaAlone runs the checkouts of the shop without an event log: an order is rows, which
// its checkout changes in its own transactions.
type sagaAlone struct {
	store *sqlstore.Store
	sagas *saga.Coordinator
	statements
}

func openSaga(ctx context.Context, database string, s *parts.Services) (contender, error) {
	store, err := openStore(ctx, database)
	if err != nil {
		return nil, err
	}
	c := &sagaAlone{store: store}
	if c.statements, err = migrate(ctx, store); err != nil {
		return nil, err
	}
	c.sagas, err = saga.New(ctx, saga.Config{Store: store, Record: c.record, Logger: quiet}, saga.Register(parts.Checkout(s.Callers, true)))
	return c, err
}

// record changes an order as an event of its checkout says.
func (c *sagaAlone) record(ctx context.Context, tx *sql.Tx, e *ordering.Event) error {
	entry, err := saga.EntryOf(e)
	if err != nil {
		return err
	}
	kind, means := parts.Means(entry)
	if !means {
		return nil
	}
	status, _ := parts.Becomes(kind)
	return c.exec(ctx, tx, setStatus, e.CorrelationID, status, entry.Time.UnixMicro())
}

func (c *sagaAlone) order(ctx context.Context, id string, p parts.Placement) error {
	err := c.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := c.insert(ctx, tx, id, p, parts.Pending, time.Now()); err != nil {
			return err
		}
		return c.sagas.Start(ctx, tx, id, parts.State{Order: id, Placement: p})
	})
	if err != nil {
		return err
	}
	c.sagas.Notify()
	return completed(c.sagas.Await(ctx, id))
}

func completed(status saga.Status, err error) error {
	if err == nil && status != saga.Completed {
		err = fmt.Errorf("the checkout is %s", status)
	}
	return err
}

func (c *sagaAlone) drain(context.Context) error { return nil }

func (c *sagaAlone) close() error {
	if err := c.sagas.Close(); err != nil {
		return err
	}
	return c.store.Close()
}
