package rabbitmq_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// While events are published, the links of publisher and consumer are cut over
// and over, and the broker is killed. Every event has its effect once, in order.
func TestExactlyOnceThroughOutages(t *testing.T) {
	onEach(t, func(t *testing.T, kind rabbitmq.QueueType) {
		const accounts, each, cuts = 20, 100, 20
		node := rabbittest.Start(t) // which is killed
		d := newDeskOn(t, node, rabbitmq.Queue{Type: kind})
		require.NoError(t, node.Sync())

		store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "books.db"))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, store.Close()) })
		require.NoError(t, store.Migrate(t.Context(), "test", []string{
			`CREATE TABLE applied (entry INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL, number INT NOT NULL)`}))
		var applied atomic.Int64
		o := newOffice(t, store, nil, func(c *ordering.Config[*ordering.Event]) {
			c.GapTimeout = time.Hour // the broker brings what is missing
			c.Handler = sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
				p := job.Event.Positions[0]
				applied.Add(1)
				_, err := tx.ExecContext(ctx, `INSERT INTO applied (account, number) VALUES ($1, $2)`, p.Stream.String(), int64(p.Number))
				return err
			})
		})
		in, out := node.Link(t), node.Link(t)
		p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: in.URL()}, Route: toQueue(d.queue)})
		s := d.consume(rabbitmq.ConsumerConfig{
			Endpoint: rabbitmq.Endpoint{URL: out.URL(), Backoff: dispatcher.Backoff{Max: 200 * time.Millisecond}},
			Receiver: rabbitmq.Events(o.Sequencer), Prefetch: 100,
		})
		reach := func(n int) {
			require.Eventually(t, func() bool { return applied.Load() >= int64(n) }, waitAtMost, tick)
		}
		results := make(chan error, accounts*each)
		links := []*rabbittest.Link{in, out}
		for n := 1; n <= each; n++ {
			for account := range accounts {
				p.Go(context.Background(), &ordering.Event{
					ID:        fmt.Sprintf("%d-%d", account, n),
					Positions: []ordering.Position{{Stream: lockkeys.Must("account", fmt.Sprint(account)), Number: uint64(n)}},
				}, func(err error) { results <- err })
			}
			if n%(each/cuts) != 0 {
				continue
			}
			reach((n - each/cuts) * accounts) // so that there is something to cut into
			link := links[n/(each/cuts)%2]
			link.Cut()
			if n == each/2 {
				require.NoError(t, node.Kill())
				require.NoError(t, node.Restart())
			}
			link.Mend()
		}
		for range accounts * each {
			require.NoError(t, <-results)
		}
		reach(accounts * each)
		require.Eventually(t, func() bool { return s.consumer.Stats().Open == 0 }, waitAtMost, tick)
		s.end(t)
		var rows, wrong int
		require.NoError(t, store.DB().QueryRow(`SELECT count(*) FROM applied`).Scan(&rows))
		require.Equal(t, accounts*each, rows)
		require.NoError(t, store.DB().QueryRow(`SELECT count(*) FROM (
			SELECT number, row_number() OVER (PARTITION BY account ORDER BY entry) AS expected FROM applied) WHERE number <> expected`).Scan(&wrong))
		require.Zero(t, wrong, "out of order")
		t.Logf("%+v; %+v", s.consumer.Stats(), p.Stats())
	})
}

// A broker that is frozen while a consumer or a publisher sets up its channels
// is given up after AnswerTimeout, which both say; when it goes on, so do they.
func TestAFrozenBroker(t *testing.T) {
	node := broker(t)
	d := newDeskOn(t, node, rabbitmq.Queue{})
	in, out := node.Link(t), node.Link(t)
	o := newOffice(t, ordering.NewMemory(), nil, nil)
	impatient := func(url string) rabbitmq.Endpoint {
		return rabbitmq.Endpoint{URL: url, AnswerTimeout: 200 * time.Millisecond, Backoff: dispatcher.Backoff{Initial: time.Millisecond, Max: 50 * time.Millisecond}}
	}
	p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: impatient(in.URL()), Route: toQueue(d.queue)})
	s := d.consume(rabbitmq.ConsumerConfig{Endpoint: impatient(out.URL()), Receiver: rabbitmq.Events(o.Sequencer)})
	require.NoError(t, publishNow(t, p, event("7", 1)))
	require.Eventually(t, func() bool { return len(o.diary.all()) == 1 }, waitAtMost, tick)
	require.NoError(t, node.Freeze())
	defer func() { _ = node.Thaw() }()
	for _, link := range []*rabbittest.Link{in, out} { // so that both connect again
		link.Cut()
		link.Mend()
	}
	gaveUp := func(err error) bool { return err != nil && strings.Contains(err.Error(), "timeout") }
	require.Eventually(t, func() bool { return gaveUp(s.consumer.Ready()) && gaveUp(p.Ready()) }, waitAtMost, tick)
	require.NoError(t, node.Thaw())
	require.NoError(t, publishNow(t, p, event("7", 2)))
	require.Eventually(t, func() bool { return len(o.diary.all()) == 2 }, waitAtMost, tick)
	s.end(t)
}
