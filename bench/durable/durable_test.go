package durable

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type measuring func(ctx context.Context, load Load, workers, rounds, n int) (Throughput, error)

var databases = map[string]measuring{"SQLite": MeasureSQLite, "PostgreSQL": at(0), "PostgreSQL-1ms": at(time.Millisecond)}

func at(distance time.Duration) measuring {
	return func(ctx context.Context, load Load, workers, rounds, n int) (Throughput, error) {
		return MeasurePostgres(ctx, load, workers, rounds, n, distance)
	}
}

// What is measured must work; how fast it is depends on the machine.

func TestThroughput(t *testing.T) {
	for name, measure := range databases {
		t.Run(name, func(t *testing.T) {
			for _, load := range []Load{Spread, Hot} {
				result, err := measure(t.Context(), load, workers, 1, 200)
				require.NoError(t, err)
				require.Positive(t, result.Flush)
				for _, r := range result.Rows {
					require.Positive(t, r.NS(), r.Contender)
				}
				var table strings.Builder
				require.NoError(t, result.Write(&table))
				require.Contains(t, table.String(), "| "+Interlock+" |")
			}
		})
	}
}

func TestOverhead(t *testing.T) {
	for positions := 1; positions <= 2; positions++ {
		o, err := MeasureOverhead(1, 2000, positions)
		require.NoError(t, err)
		require.Positive(t, o.Dispatcher)
		require.Positive(t, o.Sequencer)
	}
}

func TestIdle(t *testing.T) {
	m, err := MeasureIdle(5000, 100)
	require.NoError(t, err)
	require.Equal(t, 100, m.InMemory)
}

func TestRatiosAreOfOneRound(t *testing.T) {
	a, b := Row{times: []float64{100, 10, 1}}, Row{times: []float64{200, 20, 2}}
	require.InDelta(t, 2, a.Times(b), 1e-9)
	require.InDelta(t, 10, a.NS(), 1e-9)
	require.InDelta(t, 1e8, a.PerSecond(), 1e-3)
	require.Equal(t, []int{1, 4, 5}, []int{groupOf(Spread, 0), groupOf(Spread, 4.4), groupOf(Spread, 4.6)})
}

// The same iterations by every contender, for benchstat.
func BenchmarkThroughput(b *testing.B) {
	for name, measure := range databases {
		for load, short := range map[Load]string{Spread: "spread", Hot: "hot"} {
			b.Run(name+"/"+short, func(b *testing.B) {
				result, err := measure(b.Context(), load, workers, 1, max(b.N, 100))
				require.NoError(b, err)
				b.ReportMetric(0, "ns/op") // of all together, it says nothing
				for _, r := range result.Rows {
					b.ReportMetric(r.NS(), strings.ReplaceAll(r.Contender, " ", "-")+"-ns/event")
				}
			})
		}
	}
}

func BenchmarkOverhead(b *testing.B) {
	o, err := MeasureOverhead(1, max(b.N, 1000), 1)
	require.NoError(b, err)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(o.Dispatcher, "dispatcher-ns/event")
	b.ReportMetric(o.Sequencer, "sequencer-ns/event")
	b.ReportMetric(o.Allocs, "allocs/event")
}
