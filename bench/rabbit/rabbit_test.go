package rabbit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/rabbittest"
)

// What is measured must work; how fast it is depends on the machine.
func TestMeasure(t *testing.T) {
	node := rabbittest.Start(t)
	published, err := MeasurePublish(t.Context(), node.URL(), 1, 500)
	require.NoError(t, err)
	require.Positive(t, published.Of(Interlock).Times(published.Of(Bare)))
	consumed, err := MeasureConsume(t.Context(), node.URL(), 1, 500, 100)
	require.NoError(t, err)
	require.Positive(t, consumed.Of(Interlock).Times(consumed.Of(BareMany)))
	shapes, err := MeasureShapes(t.Context(), node.URL(), 1000)
	require.NoError(t, err)
	require.Len(t, shapes, 4)
	for _, s := range shapes {
		require.Positive(t, s.PerSecond)
		require.Positive(t, s.Confirm)
	}
}

// For benchstat: the same messages by every contender.
func BenchmarkPublish(b *testing.B) {
	node := rabbittest.Start(b)
	rows, err := MeasurePublish(b.Context(), node.URL(), 3, max(b.N, 1000))
	require.NoError(b, err)
	report(b, rows)
}

func BenchmarkConsume(b *testing.B) {
	node := rabbittest.Start(b)
	rows, err := MeasureConsume(b.Context(), node.URL(), 3, max(b.N, 1000), 256)
	require.NoError(b, err)
	report(b, rows)
}

func report(b *testing.B, rows Rows) {
	b.ReportMetric(0, "ns/op") // of all together, it says nothing
	for _, r := range rows {
		b.ReportMetric(r.PerSecond(), map[string]string{Bare: "bare", BareMany: "bare-many", Interlock: "interlock"}[r.Contender]+"-msg/s")
	}
	b.ReportMetric(rows.Of(Interlock).Times(rows.Of(Bare)), "times-bare")
}
