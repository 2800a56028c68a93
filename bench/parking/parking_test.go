package parking

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

var stores = map[string]func(b *testing.B) ordering.Store{
	"memory": func(*testing.B) ordering.Store { return ordering.NewMemory() },
	"SQLite": func(b *testing.B) ordering.Store {
		store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "x.db"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = store.Close() })
		return store
	},
}

// BenchmarkPark parks 1,000 streams, each for itself, beside others.
func BenchmarkPark(b *testing.B) {
	for name, open := range stores {
		for _, beside := range []int{1000, 100_000} {
			b.Run(fmt.Sprintf("%s/beside=%d", name, beside), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					term := begin(b, open(b))
					parkAll(b, term, 0, beside, name == "SQLite")
					b.StartTimer()
					began := time.Now()
					parkAll(b, term, beside, beside+1000, false)
					b.ReportMetric(float64(time.Since(began).Nanoseconds())/1000, "ns/park")
				}
			})
		}
	}
}

// BenchmarkGrow adds 1,000 streams, one after the other, to a parking with many.
func BenchmarkGrow(b *testing.B) {
	for name, open := range stores {
		for _, of := range []int{1000, 100_000} {
			b.Run(fmt.Sprintf("%s/of=%d", name, of), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					term := begin(b, open(b))
					park(b, term, "all", 0, of)
					b.StartTimer()
					began := time.Now()
					for i := range 1000 {
						park(b, term, "all", of+i, of+i+1)
					}
					b.ReportMetric(float64(time.Since(began).Nanoseconds())/1000, "ns/park")
				}
			})
		}
	}
}

func begin(b *testing.B, store ordering.Store) ordering.Term {
	term, err := store.Begin(b.Context(), ordering.Consumer{})
	if err != nil {
		b.Fatal(err)
	}
	return term
}

// parkAll parks streams, each for itself or, to be quick, a thousand at a time.
func parkAll(b *testing.B, term ordering.Term, from, to int, quick bool) {
	step := 1
	if quick {
		step = 1000
	}
	for i := from; i < to; i += step {
		park(b, term, fmt.Sprint(i), i, min(i+step, to))
	}
}

func park(b *testing.B, term ordering.Term, id string, from, to int) {
	p := ordering.Parking{ID: id, Reason: ordering.Failure, Error: "bad", Since: time.Now()}
	var keys []lockkeys.Key
	for i := from; i < to; i++ {
		keys = append(keys, stream(i))
		p.Streams = append(p.Streams, ordering.ParkedStream{Stream: stream(i), Number: 1})
	}
	states, err := term.Acquire(b.Context(), keys)
	if err != nil {
		b.Fatal(err)
	}
	fences := ordering.Fences{}
	for i, key := range keys {
		fences[key] = states[i].Fence
	}
	if err := term.Park(b.Context(), []ordering.Parking{p}, fences); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkGaps brings the third event of 10,000 streams, and a replayer that brings
// the first two of each.
func BenchmarkGaps(b *testing.B) {
	const streams = 10_000
	for name, open := range stores {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var most atomic.Int64
				index := indexOf(streams)
				seconds := gaps(b, open(b), streams, ordering.ReplayerFunc(
					func(ctx context.Context, r ordering.Range, deliver func(context.Context, []*ordering.Event) error) (ordering.Answer, error) {
						if n := int64(runtime.NumGoroutine()); n > most.Load() {
							most.Store(n)
						}
						i := index[r.Stream]
						return ordering.Answer{}, deliver(ctx, []*ordering.Event{event(1, i), event(2, i)})
					}))
				b.ReportMetric(seconds, "s/all")
				b.ReportMetric(float64(most.Load()), "goroutines")
			}
		})
	}
}

// BenchmarkGapsOverHTTP is BenchmarkGaps with a replayer that asks a server.
func BenchmarkGapsOverHTTP(b *testing.B) {
	const streams = 10_000
	index := indexOf(streams)
	server, err := httpreplay.NewServer(httpreplay.ServerConfig{Public: true, Source: replay.SourceFunc(
		func(_ context.Context, r ordering.Range) (a replay.Answer, err error) {
			for n := r.From; n <= min(r.To, 2); n++ {
				a.Events = append(a.Events, event(n, index[r.Stream]))
			}
			return a, nil
		})})
	if err != nil {
		b.Fatal(err)
	}
	listening := httptest.NewServer(server)
	defer listening.Close()
	client, err := httpreplay.NewClient(httpreplay.ClientConfig{URL: listening.URL})
	if err != nil {
		b.Fatal(err)
	}
	replayer, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "http", Source: client}}})
	if err != nil {
		b.Fatal(err)
	}
	for name, open := range stores {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				seconds := gaps(b, open(b), streams, replayer)
				b.ReportMetric(seconds, "s/all")
			}
		})
	}
}

func indexOf(streams int) map[lockkeys.Key]int {
	index := map[lockkeys.Key]int{}
	for i := range streams {
		index[stream(i)] = i
	}
	return index
}

// gaps returns how long it takes to close the gaps of streams.
func gaps(b *testing.B, store ordering.Store, streams int, replayer ordering.Replayer) (seconds float64) {
	var applied atomic.Int64
	all := make(chan struct{})
	seq, err := ordering.New(b.Context(), ordering.Config[*ordering.Event]{
		Store: store, GapTimeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Handler: func(context.Context, ordering.Job[*ordering.Event]) error {
			if applied.Add(1) == int64(3*streams) {
				close(all)
			}
			return nil
		},
		Replayer: replayer,
	})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	for i := range streams {
		if err := seq.Offer(b.Context(), event(3, i), nil); err != nil {
			b.Fatal(err)
		}
	}
	<-all
	seconds = time.Since(began).Seconds()
	if err := seq.Close(); err != nil {
		b.Fatal(err)
	}
	return seconds
}

// What is measured must work; how fast it is depends on the machine.
func TestMeasureLate(t *testing.T) {
	l, err := MeasureLate(t.Context(), 200)
	require.NoError(t, err)
	require.Equal(t, 200, l.Streams)
	require.GreaterOrEqual(t, l.Parked, 50*time.Millisecond, "the grace time")
	require.Positive(t, l.Resumed)
}

// BenchmarkLate is [MeasureLate] of 10,000 streams, on each kind of store.
func BenchmarkLate(b *testing.B) {
	for name, open := range stores {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				l, err := late(b.Context(), open(b), 10_000)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(l.Parked.Seconds(), "s/parked")
				b.ReportMetric(l.Resumed.Seconds(), "s/resumed")
			}
		})
	}
}
