package recovery

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/outbox"
)

// BenchmarkChain offers the last event of an outbox to a sequencer on a fresh database that
// asks the outbox for the others, whose order can only be found link by link: each waits
// for the one before, on a stream that no other event has.
func BenchmarkChain(b *testing.B) {
	for _, n := range []int{1500, 6000, 24_000} {
		b.Run(fmt.Sprint("events=", n), func(b *testing.B) {
			var took time.Duration
			var requests int64
			for range b.N {
				box, last := fill(b, n)
				t, r := recovered(b, box, last, n)
				took, requests = took+t, requests+r
			}
			b.ReportMetric(0, "ns/op") // it has the filling of the outbox too
			b.ReportMetric(took.Seconds()/float64(b.N), "s/all")
			b.ReportMetric(float64(requests)/float64(b.N), "requests")
		})
	}
}

// What is measured must work; how fast it is depends on the machine.
func TestChain(t *testing.T) {
	box, last := fill(t, 1500)
	_, requests := recovered(t, box, last, 1500)
	require.LessOrEqual(t, requests, int64(20))
}

// fill makes an outbox with n events, and returns the last one.
func fill(t testing.TB, n int) (box *outbox.Outbox, last *ordering.Event) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "producer.db")+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	box, err = outbox.New(t.Context(), db, outbox.SQLite, outbox.Config{})
	require.NoError(t, err)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	link := func(i int) lockkeys.Key { return lockkeys.Must("link", fmt.Sprint(i)) }
	for i := range n {
		last, err = box.Enqueue(t.Context(), tx, &ordering.Event{Payload: make([]byte, 100)}, link(i), link(i+1))
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit())
	return box, last
}

// recovered offers the last event to a sequencer on a new database, and returns how long it
// takes until it is committed, and how often the outbox was asked. The grace time is 1 ms,
// so that it is not what is measured.
func recovered(t testing.TB, box *outbox.Outbox, last *ordering.Event, n int) (took time.Duration, asked int64) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "consumer.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.NoError(t, store.Migrate(t.Context(), "effects", []string{`CREATE TABLE effects (event TEXT NOT NULL)`}))
	var requests atomic.Int64
	counted := replay.SourceFunc(func(ctx context.Context, missing ordering.Range) (replay.Answer, error) {
		requests.Add(1)
		return box.Fetch(ctx, missing)
	})
	replayer, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "outbox", Source: counted}}})
	require.NoError(t, err)
	var once sync.Once
	comes := make(chan struct{}) // the last event
	seq, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
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
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, seq.Offer(t.Context(), last, nil))
	<-comes
	require.NoError(t, seq.Drain(t.Context()))
	took = time.Since(began)
	require.NoError(t, seq.Close())
	var effects int
	require.NoError(t, store.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM effects`).Scan(&effects))
	require.Equal(t, n, effects)
	return took, requests.Load()
}
