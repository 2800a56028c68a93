package rabbit

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// Windows of consumers. The plain client has the one that is usual for it, interlock
// its own default.
const (
	plainWindow     = 256
	interlockWindow = 1024
)

// MeasureConsume takes n messages per round out of a quorum queue that was
// filled before. The plain client reads and acknowledges, each message for itself or
// half a window in one step; with interlock's window too; and with a row for each in a
// SQLite database, in one transaction for as many. Interlock reads the event,
// puts it in order, has a dispatcher call an empty handler, keeps its number in memory,
// and acknowledges; or its handler writes a row into a SQLite database, in one
// transaction with the number. The time is that until all is acknowledged.
func MeasureConsume(ctx context.Context, url string, rounds, n int) (Rows, error) {
	return race(ctx, &bench{url: url}, rounds, n, []contender{
		{Bare, consumeBare(plainWindow, 1, nothing)},
		{BareMany, consumeBare(plainWindow, plainWindow/2, nothing)},
		{BareWide, consumeBare(interlockWindow, plainWindow/2, nothing)},
		{BareSQLite, consumeBare(interlockWindow, plainWindow/2, rows)},
		{Interlock, consumeInterlock(inMemory)},
		{InterlockSQLite, consumeInterlock(onSQLite)},
	})
}

// MeasureBacklog is MeasureConsume for one long queue, without the contenders that are
// slower by nature.
func MeasureBacklog(ctx context.Context, url string, n int) (Rows, error) {
	return once(ctx, &bench{url: url}, n, []contender{
		{BareMany, consumeBare(plainWindow, plainWindow/2, nothing)},
		{BareSQLite, consumeBare(interlockWindow, plainWindow/2, rows)},
		{Interlock, consumeInterlock(inMemory)},
		{InterlockSQLite, consumeInterlock(onSQLite)},
	})
}

// filled makes a queue with n messages.
func (b *bench) filled(ctx context.Context, n int) (name string, remove func(), err error) {
	name, remove, err = b.queue()
	if err != nil {
		return "", nil, err
	}
	p, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{Endpoint: b.endpoint(), Route: toQueue(name), Channels: 1, Window: 1024})
	if err == nil {
		const portion = 20_000 // in memory
		for i := 0; i < n && err == nil; i += portion {
			err = sendInterlock(ctx, p, eventsFrom(i, min(i+portion, n)))
		}
		err = errors.Join(err, p.Shutdown(ctx))
	}
	if err != nil {
		remove()
	}
	return name, remove, err
}

// effect opens what a plain client does with messages before it acknowledges them.
type effect func(ctx context.Context) (do func([]amqp.Delivery) error, end func() error, err error)

func nothing(context.Context) (do func([]amqp.Delivery) error, end func() error, err error) {
	return func([]amqp.Delivery) error { return nil }, func() error { return nil }, nil
}

// rows writes a row for each message, in one transaction, into a database as careful as
// interlock's.
func rows(ctx context.Context) (do func([]amqp.Delivery) error, end func() error, err error) {
	dir, err := os.MkdirTemp("", "interlock-bench")
	if err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "effects.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	end = func() error { return errors.Join(db.Close(), os.RemoveAll(dir)) }
	var insert *sql.Stmt
	if _, err = db.ExecContext(ctx, effectsTable); err == nil {
		insert, err = db.PrepareContext(ctx, insertEffect)
	}
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return func(messages []amqp.Delivery) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for _, m := range messages {
			if _, err := tx.StmtContext(ctx, insert).ExecContext(ctx, m.MessageId, len(m.Body)); err != nil {
				return errors.Join(err, tx.Rollback())
			}
		}
		return tx.Commit()
	}, end, nil
}

const (
	effectsTable = `CREATE TABLE effects (event TEXT NOT NULL, size INTEGER NOT NULL)`
	insertEffect = `INSERT INTO effects (event, size) VALUES ($1, $2)`
)

func consumeBare(prefetch, step int, open effect) func(ctx context.Context, b *bench, n int, c *clock) error {
	return func(ctx context.Context, b *bench, n int, c *clock) (err error) {
		do, end, err := open(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
		queue, remove, err := b.filled(ctx, n)
		if err != nil {
			return err
		}
		defer remove()
		c.start()
		conn, err := amqp.Dial(b.url)
		if err != nil {
			return err
		}
		defer conn.Close()
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		if err := ch.Qos(prefetch, 0, false); err != nil {
			return err
		}
		messages, err := ch.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		some := make([]amqp.Delivery, 0, step)
		for i := 1; i <= n; i++ {
			m, ok := <-messages
			if !ok {
				return amqp.ErrClosed
			}
			if some = append(some, m); len(some) < step && i < n {
				continue
			}
			if err := errors.Join(do(some), m.Ack(step > 1)); err != nil {
				return err
			}
			some = some[:0]
		}
		c.stop()
		return nil
	}
}

// sink is where a sequencer of a contender keeps its numbers, and its handler.
type sink struct {
	store    ordering.Store
	handler  ordering.Handler[*ordering.Event]
	together dispatcher.Together
	workers  int
	end      func() error
}

func inMemory(context.Context) (sink, error) {
	store := ordering.NewMemory()
	handler := func(context.Context, ordering.Job[*ordering.Event]) error { return nil }
	return sink{store, handler, nil, 8, store.Close}, nil
}

// onSQLite has the default number of workers, whose transactions share a commit.
func onSQLite(ctx context.Context) (s sink, err error) {
	dir, err := os.MkdirTemp("", "interlock-bench")
	if err != nil {
		return s, err
	}
	store, err := sqlite.Open(ctx, filepath.Join(dir, "effects.db"))
	if err != nil {
		return s, errors.Join(err, os.RemoveAll(dir))
	}
	end := func() error { return errors.Join(store.Close(), os.RemoveAll(dir)) }
	err = store.Migrate(ctx, "effects", []string{effectsTable})
	var insert *sql.Stmt
	if err == nil {
		insert, err = store.Prepare(ctx, insertEffect)
	}
	if err != nil {
		return s, errors.Join(err, end())
	}
	handler := sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
		_, err := tx.StmtContext(ctx, insert).ExecContext(ctx, job.Event.ID, len(job.Event.Payload))
		return err
	})
	return sink{store, handler, store.Together, 64, end}, nil
}

func consumeInterlock(open func(ctx context.Context) (sink, error)) func(ctx context.Context, b *bench, n int, clock *clock) error {
	return func(ctx context.Context, b *bench, n int, clock *clock) (err error) {
		queue, remove, err := b.filled(ctx, n)
		if err != nil {
			return err
		}
		defer remove()
		sink, err := open(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, sink.end()) }()
		seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
			Store: sink.store, Handler: sink.handler, Together: sink.together, Logger: slog.New(slog.DiscardHandler),
			Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{Workers: sink.workers},
		})
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		c, err := rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{
			Endpoint: b.endpoint(), Queue: queue, Prefetch: interlockWindow, Receiver: rabbitmq.Events(seq),
		})
		if err != nil {
			return errors.Join(err, seq.Close())
		}
		var watching sync.WaitGroup
		watching.Go(func() {
			for c.Stats().Acked < uint64(n) && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			clock.stop() // what follows takes a tenth of a second, however much it was
			stop()
		})
		clock.start()
		err = c.Run(ctx)
		stop()
		watching.Wait()
		return errors.Join(err, seq.Close())
	}
}
