package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
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
)

// TestSoak: whatever a source drops, doubles or sends late, each event is applied once,
// in order, and neither memory nor the database grows with the number of events. It
// writes rate, heap and size on disk; SOAK_EVENTS says how many events.
func TestSoak(t *testing.T) {
	n := 5_000
	if text := os.Getenv("SOAK_EVENTS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	path := empty(t)
	store, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, store.Migrate(t.Context(), "soak", []string{
		`CREATE TABLE soak (stream TEXT PRIMARY KEY, number INTEGER NOT NULL, times INTEGER NOT NULL) WITHOUT ROWID`}))
	source := newUnreliable(1000)
	seq, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
		Store: store, Handler: sqlstore.InTx(store, countUp), Together: store.Together,
		Replayer: ordering.ReplayerFunc(source.replay), GapTimeout: 50 * time.Millisecond, Retention: 10 * time.Second,
		Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{MaxPending: 1024},
	})
	require.NoError(t, err)

	const samples = 20
	var heap, disk [samples]float64
	for i := range samples {
		begun := time.Now()
		for range n / samples {
			for _, e := range source.next() {
				require.NoError(t, seq.Offer(t.Context(), e, nil))
			}
		}
		heap[i], disk[i] = heapMB(), sizeMB(t, path)
		t.Logf("%9d events, %7.0f/s, heap %4.0f MB, on disk %5.0f MB, %d replays", (i+1)*(n/samples),
			float64(n/samples)/time.Since(begun).Seconds(), heap[i], disk[i], seq.Stats().Replays)
	}
	for _, e := range source.rest() {
		require.NoError(t, seq.Offer(t.Context(), e, nil))
	}
	require.Eventually(t, func() bool { return seq.Stats().Applied == uint64(source.made) }, waitAtMost, tick)
	require.NoError(t, seq.Drain(t.Context()))
	require.NoError(t, seq.Close())
	var times, numbers int
	require.NoError(t, store.DB().QueryRow(`SELECT sum(times), sum(number) FROM soak`).Scan(&times, &numbers))
	assert.Equal(t, source.positions, times)
	assert.Equal(t, source.positions, numbers)
	require.NoError(t, store.Close())

	const quarter, last = samples / 4, samples - 1
	assert.Less(t, heap[last], 2*heap[quarter]+64, "the heap grows")
	assert.Less(t, disk[last], 2*disk[quarter]+64, "the database grows")
}

// countUp is the effect of an event: each of its streams goes from one number to the next.
func countUp(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
	for _, p := range job.Event.Positions {
		r, err := tx.ExecContext(ctx, `INSERT INTO soak VALUES ($1, $2, 1)
			ON CONFLICT (stream) DO UPDATE SET number = excluded.number, times = times + 1 WHERE number = excluded.number - 1`,
			p.Stream.String(), int64(p.Number))
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); n != 1 || err != nil {
			return dispatcher.Permanent(fmt.Errorf("%v is not the next: %w", p, err))
		}
	}
	return nil
}

// unreliable is a source that drops, doubles and delays events of many streams, and
// still has the latest ones.
type unreliable struct {
	streams         []lockkeys.Key
	random          *rand.Rand
	late            []*ordering.Event
	made, positions int

	mu struct {
		sync.Mutex
		numbers []uint64                           // the last of each stream
		latest  map[lockkeys.Key][]*ordering.Event // in order of their numbers
	}
}

// kept is how many events of a stream the source still has: more than can be on their
// way.
const kept = 64

func newUnreliable(streams int) *unreliable {
	u := &unreliable{random: rand.New(rand.NewPCG(1, 2))}
	for i := range streams {
		u.streams = append(u.streams, lockkeys.Must("account", strconv.Itoa(i)))
	}
	u.mu.numbers, u.mu.latest = make([]uint64, streams), map[lockkeys.Key][]*ordering.Event{}
	return u
}

// next makes an event, of two streams or one, and returns what arrives.
func (u *unreliable) next() (arrives []*ordering.Event) {
	u.late = append(u.late, u.make())
	if len(u.late) < 16 {
		return nil
	}
	i := u.random.IntN(len(u.late))
	e := u.late[i]
	u.late[i] = u.late[len(u.late)-1]
	u.late = u.late[:len(u.late)-1]
	switch u.random.IntN(1000) {
	case 0:
		return nil
	case 1, 2, 3, 4, 5:
		return []*ordering.Event{e, e}
	}
	return []*ordering.Event{e}
}

// rest returns what has not arrived, and one more event of each stream, so that all
// that is missing is noticed.
func (u *unreliable) rest() []*ordering.Event {
	all := u.late
	for i := range u.streams {
		all = append(all, u.makeOf(i))
	}
	return all
}

func (u *unreliable) make() *ordering.Event {
	i, j := u.random.IntN(len(u.streams)), u.random.IntN(len(u.streams))
	if i == j || u.random.IntN(2) == 0 {
		return u.makeOf(i)
	}
	return u.makeOf(i, j)
}

func (u *unreliable) makeOf(streams ...int) *ordering.Event {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.made++
	e := &ordering.Event{ID: "event-" + strconv.Itoa(u.made), Payload: []byte("1.00 EUR")}
	for _, i := range streams {
		u.positions++
		u.mu.numbers[i]++
		e.Positions = append(e.Positions, ordering.Position{Stream: u.streams[i], Number: u.mu.numbers[i]})
		latest := append(u.mu.latest[u.streams[i]], e)
		if len(latest) >= 2*kept {
			latest = append([]*ordering.Event(nil), latest[kept:]...)
		}
		u.mu.latest[u.streams[i]] = latest
	}
	return e
}

// replay is an [ordering.Replayer].
func (u *unreliable) replay(ctx context.Context, missing ordering.Range, deliver func(ctx context.Context, events []*ordering.Event) error) (ordering.Answer, error) {
	var found []*ordering.Event
	u.mu.Lock()
	for _, e := range u.mu.latest[missing.Stream] {
		if p, ok := e.On(missing.Stream); ok && missing.Has(p) {
			again := *e
			found = append(found, &again)
		}
	}
	u.mu.Unlock()
	return ordering.Answer{Attempts: 1}, deliver(ctx, found)
}

func heapMB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

func sizeMB(t *testing.T, path string) (size float64) {
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(path + suffix); err == nil {
			size += float64(info.Size()) / 1e6
		} else {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
	}
	return size
}
