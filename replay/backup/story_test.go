package backup_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/backup"
	"github.com/interlock-go/interlock/replay/outbox"
)

// broker is a primary that dies and comes back: a queue that survives, with a
// consumer that offers what is in it while the broker is up.
type broker struct {
	seq *ordering.Sequencer[*ordering.Event]

	mu struct {
		sync.Mutex
		random *rand.Rand
		mode   mode
		flipIn int // so many events by either channel until the next mode
		queue  []*ordering.Event
		out    int // events with the consumer
		closed bool
	}
	wake chan struct{} // the queue or the mode has changed
}

// mode is what a broker does.
type mode int

const (
	up   mode = iota
	dead      // fails at once
	hung      // answers nothing
	deaf      // takes events and fails to confirm them
)

func newBroker(seq *ordering.Sequencer[*ordering.Event], seed uint64) *broker {
	b := &broker{seq: seq, wake: make(chan struct{}, 1)}
	b.mu.random = rand.New(rand.NewPCG(seed, 4))
	b.mu.flipIn = 30
	return b
}

// pass is called for every event by either channel: with time, the mode changes.
func (b *broker) pass() (now mode, chance int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.flipIn--; b.mu.flipIn <= 0 && !b.mu.closed {
		b.mu.flipIn = 10 + b.mu.random.IntN(30)
		if b.mu.mode == up {
			b.mu.mode = up + 1 + mode(b.mu.random.IntN(3))
		} else {
			b.mu.mode = up
		}
		b.changed()
	}
	return b.mu.mode, b.mu.random.IntN(10)
}

func (b *broker) Publish(ctx context.Context, e *ordering.Event) error {
	now, chance := b.pass()
	if now == up || now == deaf || now == hung && chance < 5 {
		b.put(e)
		if now == up && chance == 0 {
			b.put(e) // twice
		}
	}
	switch now {
	case up:
		return nil
	case hung:
		<-ctx.Done()
		return ctx.Err()
	}
	return errDead
}

func (b *broker) put(e *ordering.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.queue = append(b.mu.queue, e)
	b.changed()
}

func (b *broker) changed() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// mend ends the troubles for good.
func (b *broker) mend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.mode, b.mu.closed = up, true
	b.changed()
}

func (b *broker) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.queue) == 0 && b.mu.out == 0
}

// consume gives the sequencer what is in the queue, while the broker is up.
func (b *broker) consume(ctx context.Context) {
	for {
		e := b.next()
		if e == nil {
			select {
			case <-b.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		settle := func(e *ordering.Event, o ordering.Outcome) {
			if !o.Ack() {
				b.put(e)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.mu.out--
		}
		if err := b.seq.Offer(ctx, e, settle); err != nil {
			settle(e, ordering.Outcome{})
		}
	}
}

func (b *broker) next() *ordering.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.mode != up || len(b.mu.queue) == 0 {
		return nil
	}
	e := b.mu.queue[0]
	b.mu.queue = b.mu.queue[1:]
	b.mu.out++
	return e
}

// streamSet is what event i is part of: many streams of their own, and now
// and then two of them.
func streamSet(i int) []lockkeys.Key {
	const n = 25
	stream := func(i int) lockkeys.Key { return lockkeys.Must("account", fmt.Sprint(i%n)) }
	if i%7 == 0 {
		return []lockkeys.Key{stream(i), stream(i + 1 + i/7%(n-1))}
	}
	return []lockkeys.Key{stream(i)}
}

func openOutbox(t *testing.T) (*outbox.Outbox, *sql.DB) {
	t.Helper()
	u := url.URL{Scheme: "file", Path: filepath.Join(t.TempDir(), "outbox.db"), RawQuery: url.Values{
		"_pragma": {"busy_timeout(20000)", "journal_mode(WAL)", "synchronous(NORMAL)"}, "_txlock": {"immediate"}}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	box, err := outbox.New(t.Context(), db, outbox.SQLite, outbox.Config{})
	require.NoError(t, err)
	return box, db
}

// enqueue puts events into the outbox, a few in a transaction, and returns how
// many each stream has.
func enqueue(t *testing.T, box *outbox.Outbox, db *sql.DB, n int) map[lockkeys.Key]int {
	t.Helper()
	counts := map[lockkeys.Key]int{}
	for first := 0; first < n; first += 20 {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		for i := first; i < min(n, first+20); i++ {
			_, err := box.Enqueue(t.Context(), tx, &ordering.Event{Payload: fmt.Append(nil, i)}, streamSet(i)...)
			require.NoError(t, err)
			for _, stream := range streamSet(i) {
				counts[stream]++
			}
		}
		require.NoError(t, tx.Commit())
		box.Notify()
	}
	return counts
}

// An outbox relay sends events of many streams through a primary that dies,
// hangs, loses confirmations and comes back, at random, and over HTTP. The
// effects are each event's, once, in the order of its streams.
func outage(t *testing.T, cfg ordering.Config[*ordering.Event]) (want map[lockkeys.Key]int) {
	box, db := openOutbox(t)
	replayer, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "outbox", Source: box}}})
	require.NoError(t, err)
	cfg.Replayer, cfg.GapTimeout = replayer, 5*time.Millisecond
	seq, err := ordering.New(t.Context(), cfg)
	require.NoError(t, err)

	h := handler(t, backup.HandlerConfig{Sink: seq, Wait: time.Second})
	server := serve(t, h)
	c := client(t, server, backup.ClientConfig{})
	b := newBroker(seq, 7)
	second := outbox.PublisherFunc(func(ctx context.Context, e *ordering.Event) error {
		b.pass()
		return c.Publish(ctx, e)
	})
	publisher, err := backup.NewPublisher(backup.PublisherConfig{Primary: b, Backup: second,
		Timeout: 2 * time.Millisecond, Probe: 2 * time.Millisecond})
	require.NoError(t, err)
	relay, err := outbox.NewRelay(box, publisher, outbox.RelayConfig{Window: 16, Poll: 20 * time.Millisecond,
		Backoff: dispatcher.Backoff{Initial: time.Millisecond, Max: 20 * time.Millisecond}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, relay.Run(ctx)) })
	running.Go(func() { b.consume(ctx) })

	want = enqueue(t, box, db, 500)
	soon(t, func() bool {
		s, err := box.Stats(t.Context())
		return err == nil && s.Unsent == 0
	}, "all are sent")
	b.mend()
	soon(t, b.empty, "the queue is empty")
	require.NoError(t, seq.Drain(t.Context()))
	cancel()
	running.Wait()
	require.NoError(t, seq.Close())

	s := publisher.Stats()
	assert.EqualValues(t, 500, s.Primary+s.Backup)
	assert.Greater(t, s.Primary, uint64(50))
	assert.Greater(t, s.Backup, uint64(50))
	assert.Greater(t, s.Switches, uint64(4))
	assert.Equal(t, s.Backup, h.Stats().Events, "the receiver has confirmed each of them")
	t.Logf("%d by the primary, %d by the backup, %d switches, %d attempts failed", s.Primary, s.Backup, s.Switches, s.Failed)
	return want
}

// upTo returns 1 to n.
func upTo(n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = uint64(i + 1)
	}
	return list
}

func TestOutageOnTheMemoryStore(t *testing.T) {
	var j journal
	for stream, n := range outage(t, ordering.Config[*ordering.Event]{Store: ordering.NewMemory(), Handler: j.handle}) {
		assert.Equal(t, upTo(n), j.of(stream), stream)
	}
}

func TestOutageOnSQLite(t *testing.T) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "consumer.db"))
	require.NoError(t, err)
	defer func() { assert.NoError(t, store.Close()) }()
	require.NoError(t, store.Migrate(t.Context(), "effects", []string{
		`CREATE TABLE effects (id INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, number INTEGER NOT NULL)`}))
	want := outage(t, ordering.Config[*ordering.Event]{Store: store, Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
		for _, p := range job.Event.Positions {
			if _, err := tx.ExecContext(ctx, `INSERT INTO effects (stream, number) VALUES ($1, $2)`, p.Stream.String(), int64(p.Number)); err != nil {
				return err
			}
		}
		return nil
	})})
	for stream, n := range want {
		assert.Equal(t, upTo(n), numbersOf(t, store.DB(), stream), stream)
	}
}

// numbersOf returns the numbers of a stream in the order of their effects.
func numbersOf(t *testing.T, db *sql.DB, stream lockkeys.Key) (numbers []uint64) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT number FROM effects WHERE stream = $1 ORDER BY id`, stream.String())
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var n uint64
		require.NoError(t, rows.Scan(&n))
		numbers = append(numbers, n)
	}
	require.NoError(t, rows.Err())
	return numbers
}
