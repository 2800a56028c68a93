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
	consumed, err := MeasureConsume(t.Context(), node.URL(), 1, 500)
	require.NoError(t, err)
	require.Positive(t, consumed.Of(Interlock).Times(consumed.Of(BareMany)))
	backlog, err := MeasureBacklog(t.Context(), node.URL(), 3000)
	require.NoError(t, err)
	require.Positive(t, backlog.Of(InterlockSQLite).Times(backlog.Of(BareMany)))
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
	rows, err := MeasureConsume(b.Context(), node.URL(), 3, max(b.N, 1000))
	require.NoError(b, err)
	report(b, rows)
}

func BenchmarkBacklog(b *testing.B) {
	node := rabbittest.Start(b)
	rows, err := MeasureBacklog(b.Context(), node.URL(), max(b.N, 1000))
	require.NoError(b, err)
	report(b, rows)
}

var units = map[string]string{
	Bare: "bare", BareMany: "bare-many", BareWide: "bare-wide", BareSQLite: "bare-sqlite", Interlock: "interlock", InterlockSQLite: "interlock-sqlite",
}

func report(b *testing.B, rows Rows) {
	b.ReportMetric(0, "ns/op") // of all together, it says nothing
	for _, r := range rows {
		unit := units[r.Contender]
		b.ReportMetric(r.PerSecond(), unit+"-msg/s")
		if r.Contender != rows[0].Contender {
			b.ReportMetric(r.Times(rows[0]), unit+"-times-first")
		}
	}
}
