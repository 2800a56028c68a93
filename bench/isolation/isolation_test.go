package isolation

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is counted must be right; how fast it is depends on the machine.
func TestSagasThatAreIsolatedSeeNothingOfEachOther(t *testing.T) {
	for _, m := range []mode{keep, flag} {
		r, _ := m.run(t, 120)
		require.Equal(t, result{}, r, "%s", m)
	}
	r, _ := nothing.run(t, 200)
	require.Positive(t, r.dirty+r.lost+r.fuzzy, "without isolation they do")
}

func BenchmarkIsolation(b *testing.B) {
	for _, m := range []mode{keep, nothing, flag} {
		b.Run("by="+string(m), func(b *testing.B) {
			r, took := m.run(b, b.N)
			b.ReportMetric(0, "ns/op") // it has the opening of the database too
			b.ReportMetric(float64(b.N)/took.Seconds(), "sagas/s")
			b.ReportMetric(float64(r.dirty), "dirty")
			b.ReportMetric(float64(r.lost), "lost")
			b.ReportMetric(float64(r.fuzzy), "fuzzy")
			b.ReportMetric(float64(r.wrong), "wrong")
		})
	}
}
