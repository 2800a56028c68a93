package recovery

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/httpreplay"
)

// stores on which everything is measured but the chain.
var stores = []struct {
	name string
	open func(t testing.TB) ordering.Store
}{
	{"memory", func(testing.TB) ordering.Store { return ordering.NewMemory() }},
	{"SQLite", func(t testing.TB) ordering.Store {
		store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "x.db"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		return store
	}},
}

func stream(i int) lockkeys.Key { return lockkeys.Must("account", fmt.Sprint(i)) }

func event(number uint64, i int) *ordering.Event {
	return &ordering.Event{Payload: make([]byte, 100), Positions: []ordering.Position{{Stream: stream(i), Number: number}}}
}

// sources that bring the first two events of streams: one in the process, and a server.
var sources = []struct {
	name string
	open func(t testing.TB, streams int) ordering.Replayer
}{
	{"process", func(_ testing.TB, streams int) ordering.Replayer {
		index := indexOf(streams)
		return ordering.ReplayerFunc(func(ctx context.Context, r ordering.Range, deliver func(context.Context, []*ordering.Event) error) (ordering.Answer, error) {
			i := index[r.Stream]
			return ordering.Answer{}, deliver(ctx, []*ordering.Event{event(1, i), event(2, i)})
		})
	}},
	{"http", func(t testing.TB, streams int) ordering.Replayer {
		index := indexOf(streams)
		server, err := httpreplay.NewServer(httpreplay.ServerConfig{Public: true, Source: replay.SourceFunc(
			func(_ context.Context, r ordering.Range) (a replay.Answer, err error) {
				for n := r.From; n <= min(r.To, 2); n++ {
					a.Events = append(a.Events, event(n, index[r.Stream]))
				}
				return a, nil
			})})
		require.NoError(t, err)
		listening := httptest.NewServer(server)
		t.Cleanup(listening.Close)
		client, err := httpreplay.NewClient(httpreplay.ClientConfig{URL: listening.URL})
		require.NoError(t, err)
		replayer, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "http", Source: client}}})
		require.NoError(t, err)
		return replayer
	}},
}

func indexOf(streams int) map[lockkeys.Key]int {
	index := map[lockkeys.Key]int{}
	for i := range streams {
		index[stream(i)] = i
	}
	return index
}

// BenchmarkGaps brings the third event of 10,000 streams, and a source that has the first
// two of each.
func BenchmarkGaps(b *testing.B) {
	for _, source := range sources {
		for _, store := range stores {
			b.Run(fmt.Sprintf("source=%s/store=%s", source.name, store.name), func(b *testing.B) {
				var took time.Duration
				var most int
				for range b.N {
					c := newConsumer(b, store.open(b), source.open(b, 10_000))
					took += c.bring(b, 3, 10_000, 30_000, 0)
					most = max(most, c.goroutines)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(took.Seconds()/float64(b.N), "s/all")
				b.ReportMetric(float64(most), "goroutines")
			})
		}
	}
}

// BenchmarkLate brings the second event of 10,000 streams, which parks them, since no
// source has the first one, and then the first ones, which resumes them.
func BenchmarkLate(b *testing.B) {
	for _, store := range stores {
		b.Run("store="+store.name, func(b *testing.B) {
			var parked, resumed time.Duration
			for range b.N {
				c := newConsumer(b, store.open(b), nil)
				parked += c.bring(b, 2, 10_000, 0, 10_000)
				resumed += c.bring(b, 1, 10_000, 20_000, 10_000)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(parked.Seconds()/float64(b.N), "s/parked")
			b.ReportMetric(resumed.Seconds()/float64(b.N), "s/resumed")
		})
	}
}

// What is measured must work; how fast it is depends on the machine.
func TestGapsAndLateEvents(t *testing.T) {
	for _, store := range stores {
		for _, source := range sources {
			newConsumer(t, store.open(t), source.open(t, 200)).bring(t, 3, 200, 600, 0)
		}
		c := newConsumer(t, store.open(t), nil)
		require.GreaterOrEqual(t, c.bring(t, 2, 200, 0, 200), grace)
		c.bring(t, 1, 200, 400, 200)
	}
}

// consumer counts what comes of events.
type consumer struct {
	seq           *ordering.Sequencer[*ordering.Event]
	applied, held atomic.Int64
	goroutines    int // the most there were
}

// grace is for events that are late.
const grace = 50 * time.Millisecond

func newConsumer(t testing.TB, store ordering.Store, replayer ordering.Replayer) *consumer {
	c := &consumer{}
	var err error
	c.seq, err = ordering.New(t.Context(), ordering.Config[*ordering.Event]{
		Store: store, Replayer: replayer, GapTimeout: grace, Logger: slog.New(slog.DiscardHandler),
		Handler: func(context.Context, ordering.Job[*ordering.Event]) error {
			c.applied.Add(1)
			return nil
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.seq.Close()) })
	return c
}

// bring offers the event with a number of each stream, and returns how long it takes until
// so many events in all have been applied, and been held by the store.
func (c *consumer) bring(t testing.TB, number uint64, streams int, applied, held int64) time.Duration {
	began := time.Now()
	for i := range streams {
		require.NoError(t, c.seq.Offer(t.Context(), event(number, i), func(_ *ordering.Event, o ordering.Outcome) {
			if o.Result == ordering.Held {
				c.held.Add(1)
			}
		}))
	}
	for c.applied.Load() < applied || c.held.Load() < held {
		c.goroutines = max(c.goroutines, runtime.NumGoroutine())
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}
