package rabbit

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// Windows of consumers. The plain client has the one that is usual for it, interlock its
// own default.
const (
	plainWindow = 256
	wideWindow  = 1024
)

// consuming contenders take messages out of a queue that was filled before, until all are
// acknowledged. The plain client acknowledges each for itself or 128 in one step, with
// interlock's window too, or after it has written a row for each into a SQLite database,
// 128 in a transaction. Interlock puts the events in order and calls an empty handler; or
// its handlers each write a row, in one transaction with the event's number.
var consuming = []contender{
	{"amqp091-go", consumeBare(plainWindow, 1, nil)},
	{"amqp091-go-128", consumeBare(plainWindow, 128, nil)},
	{"amqp091-go-128-wide", consumeBare(wideWindow, 128, nil)},
	{"interlock", consumeInterlock(inMemory)},
	{"amqp091-go-128-SQLite", consumeBare(wideWindow, 128, rows)},
	{"interlock-SQLite", consumeInterlock(onSQLite)},
}

func BenchmarkConsume(b *testing.B) {
	race(b, &broker{url: rabbittest.Start(b).URL()}, consuming)
}

// BenchmarkBacklog is BenchmarkConsume for one long queue, without the contender that is
// slower by nature, and without a window that is as wide.
func BenchmarkBacklog(b *testing.B) {
	race(b, &broker{url: rabbittest.Start(b).URL()}, slices.Concat(consuming[1:2], consuming[3:]))
}

// filled makes a queue with n messages.
func (br *broker) filled(t testing.TB, n int) (queue string) {
	queue = br.queue(t)
	p := br.publisher(t, queue, 1, 1024)
	const portion = 20_000 // in memory
	for i := 0; i < n; i += portion {
		publishAll(t, p, events(i, min(i+portion, n)))
	}
	return queue
}

const (
	effectsTable = `CREATE TABLE effects (event TEXT NOT NULL, size INTEGER NOT NULL)`
	insertEffect = `INSERT INTO effects (event, size) VALUES ($1, $2)`
)

// rows returns what writes a row for each message, in one transaction, into a database as
// careful as interlock's.
func rows(t testing.TB) func([]amqp.Delivery) error {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "effects.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = db.ExecContext(t.Context(), effectsTable)
	require.NoError(t, err)
	insert, err := db.PrepareContext(t.Context(), insertEffect)
	require.NoError(t, err)
	return func(messages []amqp.Delivery) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		for _, m := range messages {
			if _, err := tx.StmtContext(t.Context(), insert).ExecContext(t.Context(), m.MessageId, len(m.Body)); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
}

// consumeBare acknowledges some messages in one step, after their effect, if there is one.
func consumeBare(prefetch, some int, effect func(t testing.TB) func([]amqp.Delivery) error) func(t testing.TB, br *broker, n int, start, stop func()) {
	return func(t testing.TB, br *broker, n int, start, stop func()) {
		do := func([]amqp.Delivery) error { return nil }
		if effect != nil {
			do = effect(t)
		}
		queue := br.filled(t, n)
		start()
		_, ch := br.dial(t)
		require.NoError(t, ch.Qos(prefetch, 0, false))
		messages, err := ch.Consume(queue, "", false, false, false, false, nil)
		require.NoError(t, err)
		open := make([]amqp.Delivery, 0, some)
		for i := 1; i <= n; i++ {
			m, ok := <-messages
			require.True(t, ok, "the connection was lost")
			if open = append(open, m); len(open) < some && i < n {
				continue
			}
			require.NoError(t, do(open))
			require.NoError(t, m.Ack(some > 1))
			open = open[:0]
		}
		stop()
	}
}

// inMemory has the numbers in memory, and an empty handler.
func inMemory(t testing.TB) (c ordering.Config[*ordering.Event]) {
	store := ordering.NewMemory()
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	c.Store = store
	c.Handler = func(context.Context, ordering.Job[*ordering.Event]) error { return nil }
	c.Dispatcher.Workers = 8
	return c
}

// onSQLite has the default number of workers, whose transactions share a commit.
func onSQLite(t testing.TB) (c ordering.Config[*ordering.Event]) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "effects.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.NoError(t, store.Migrate(t.Context(), "effects", []string{effectsTable}))
	insert, err := store.Prepare(t.Context(), insertEffect)
	require.NoError(t, err)
	c.Store, c.Together = store, store.Together
	c.Handler = sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
		_, err := tx.StmtContext(ctx, insert).ExecContext(ctx, job.Event.ID, len(job.Event.Payload))
		return err
	})
	c.Dispatcher = dispatcher.Config[ordering.Job[*ordering.Event]]{Workers: 64}
	return c
}

func consumeInterlock(config func(t testing.TB) ordering.Config[*ordering.Event]) func(t testing.TB, br *broker, n int, start, stop func()) {
	return func(t testing.TB, br *broker, n int, start, stop func()) {
		queue := br.filled(t, n)
		c := config(t)
		c.Logger = slog.New(slog.DiscardHandler)
		seq, err := ordering.New(t.Context(), c)
		require.NoError(t, err)
		consumer, err := rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{
			Endpoint: br.endpoint(), Queue: queue, Prefetch: wideWindow, Receiver: rabbitmq.Events(seq),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var ran error
		var running sync.WaitGroup
		start()
		running.Go(func() {
			defer cancel()
			ran = consumer.Run(ctx)
		})
		for consumer.Stats().Acked < uint64(n) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		stop() // what follows takes a tenth of a second, however much it was
		cancel()
		running.Wait()
		require.NoError(t, ran)
		require.NoError(t, seq.Close())
	}
}
