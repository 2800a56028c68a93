package recovery

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is measured must work; how fast it is depends on the machine.
func TestMeasureChain(t *testing.T) {
	c, err := MeasureChain(t.Context(), 1500)
	require.NoError(t, err)
	require.Positive(t, c.Elapsed)
	require.LessOrEqual(t, c.Requests, 20)
}

func BenchmarkChain(b *testing.B) {
	for _, n := range []int{1500, 6000, 24_000} {
		b.Run(fmt.Sprint("events=", n), func(b *testing.B) {
			var all Chain
			for range b.N {
				c, err := MeasureChain(b.Context(), n)
				require.NoError(b, err)
				all.Elapsed += c.Elapsed
				all.Requests += c.Requests
			}
			b.ReportMetric(0, "ns/op") // it has the filling of the outbox too
			b.ReportMetric(all.Elapsed.Seconds()/float64(b.N), "s")
			b.ReportMetric(all.Elapsed.Seconds()/float64(b.N*n)*1e6, "µs/event")
			b.ReportMetric(float64(all.Requests)/float64(b.N), "requests")
		})
	}
}
