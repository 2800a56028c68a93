package durable

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/bench/internal/measure"
	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// BenchmarkSequencer is what a sequencer adds to its dispatcher for an event that comes in
// its turn, with a store that does nothing and an empty handler.
func BenchmarkSequencer(b *testing.B) {
	for _, positions := range []int{1, 2} {
		b.Run(fmt.Sprint("positions=", positions), func(b *testing.B) {
			var race measure.Race
			for _, c := range []struct {
				name string
				open func(t testing.TB) func(context.Context, []*ordering.Event) error
			}{{"dispatcher", alone}, {"sequencer", sequenced}} {
				race.Run(b, c.name, func(b *testing.B) {
					pass := c.open(b)
					events := numbered(b.N+10_000, positions)
					require.NoError(b, pass(b.Context(), events[:10_000])) // warms up
					runtime.GC()
					b.ResetTimer()
					require.NoError(b, pass(b.Context(), events[10_000:]))
					b.StopTimer()
				})
			}
		})
	}
}

const (
	workers = 8
	queued  = 1024
)

func alone(t testing.TB) func(context.Context, []*ordering.Event) error {
	d, err := dispatcher.New(dispatcher.Config[*ordering.Event]{
		Keys: func(e *ordering.Event, claim *lockkeys.Claim) error {
			for _, p := range e.Positions {
				claim.Exclusive(p.Stream)
			}
			return nil
		},
		Handler: func(context.Context, *ordering.Event) error { return nil },
		Workers: workers, MaxPending: queued,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return func(ctx context.Context, events []*ordering.Event) error {
		for _, e := range events {
			if err := d.Submit(ctx, e); err != nil {
				return err
			}
		}
		return d.Drain(ctx)
	}
}

func sequenced(t testing.TB) func(context.Context, []*ordering.Event) error {
	seq := newSequencer(t, 0)
	return func(ctx context.Context, events []*ordering.Event) error {
		for _, e := range events {
			if err := seq.Offer(ctx, e, nil); err != nil {
				return err
			}
		}
		return seq.Drain(ctx)
	}
}

func newSequencer(t testing.TB, maxActive int) *ordering.Sequencer[*ordering.Event] {
	seq, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
		Store: nullStore{}, Handler: func(context.Context, ordering.Job[*ordering.Event]) error { return nil },
		MaxActive: maxActive, Logger: slog.New(slog.DiscardHandler),
		Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{Workers: workers, MaxPending: queued},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, seq.Close()) })
	return seq
}

// numbered returns n events of a thousand streams in turn.
func numbered(n, positions int) []*ordering.Event {
	streams := make([]ordering.Position, 1000)
	for i := range streams {
		streams[i].Stream = lockkeys.Must("client", strconv.Itoa(i/4), "account", strconv.Itoa(i))
	}
	events := make([]*ordering.Event, n)
	for i := range events {
		e := &ordering.Event{ID: strconv.Itoa(i)}
		for k := range positions {
			p := &streams[(i*positions+k)%len(streams)]
			p.Number++
			e.Positions = append(e.Positions, *p)
		}
		events[i] = e
	}
	return events
}

// BenchmarkStreams gives a sequencer one event of each of as many streams as there are
// iterations, with at most 10,000 of them in memory.
func BenchmarkStreams(b *testing.B) {
	left, _ := idle(b, b.N, 10_000)
	b.ReportMetric(left, "MB-left")
}

// idle returns the heap in use, in MB, after streams that were heard of once, beside that
// before, and how many of them are in memory.
func idle(t testing.TB, streams, maxActive int) (left float64, inMemory int) {
	before := measure.Heap()
	seq := newSequencer(t, maxActive)
	for i := range streams {
		stream := lockkeys.Must("client", strconv.Itoa(i/4), "account", strconv.Itoa(i))
		e := &ordering.Event{ID: strconv.Itoa(i), Positions: []ordering.Position{{Stream: stream, Number: 1}}}
		require.NoError(t, seq.Offer(t.Context(), e, nil))
	}
	require.NoError(t, seq.Drain(t.Context()))
	return measure.Heap() - before, seq.Stats().Streams
}

func TestStreamsLeaveMemory(t *testing.T) {
	_, inMemory := idle(t, 5000, 100)
	require.Equal(t, 100, inMemory)
}

func TestNumbersFollow(t *testing.T) {
	for _, open := range []func(testing.TB) func(context.Context, []*ordering.Event) error{alone, sequenced} {
		require.NoError(t, open(t)(t.Context(), numbered(3000, 2)))
	}
}
