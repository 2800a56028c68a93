package isolation

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is counted must be right; how fast it is depends on the machine.
func TestMeasure(t *testing.T) {
	for _, mode := range Modes {
		r, err := Measure(t.Context(), mode, 120)
		require.NoError(t, err)
		if mode != Nothing {
			require.Equal(t, Result{Mode: mode, Sagas: 120, Elapsed: r.Elapsed}, r, "sagas that are isolated see nothing of each other")
		}
	}
}

func BenchmarkIsolation(b *testing.B) {
	for _, mode := range Modes {
		b.Run("by="+string(mode), func(b *testing.B) {
			r, err := Measure(b.Context(), mode, b.N)
			require.NoError(b, err)
			b.ReportMetric(0, "ns/op") // it has the opening of the database too
			b.ReportMetric(float64(r.Sagas)/r.Elapsed.Seconds(), "sagas/s")
			b.ReportMetric(float64(r.Dirty), "dirty")
			b.ReportMetric(float64(r.Lost), "lost")
			b.ReportMetric(float64(r.Fuzzy), "fuzzy")
			b.ReportMetric(float64(r.Wrong), "wrong")
		})
	}
}
