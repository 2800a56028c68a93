package eventlog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/replay/eventlog"
)

// The bytes on disk of an event, with all indexes.
func BenchmarkSize(b *testing.B) {
	for name, d := range dialects {
		b.Run(name, func(b *testing.B) {
			bed := open(b, d)
			size := func(tables ...string) (bytes float64) {
				for _, table := range tables {
					var n float64
					query := `SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_schema WHERE tbl_name = $1)`
					if d == eventlog.PostgreSQL {
						query = `SELECT pg_total_relation_size($1::regclass)`
					}
					require.NoError(b, bed.store.DB().QueryRow(query, table).Scan(&n))
					bytes += n
				}
				return bytes
			}
			n := max(b.N, 1000)
			require.NoError(b, bed.appendByLog(b.Context(), n/16+1, 16))
			require.NoError(b, bed.appendByHand(b.Context(), n/16+1, 16))
			total := float64((n/16 + 1) * 16)
			b.ReportMetric(size("outbox_events", "outbox_positions", "outbox_streams", "eventlog_entries")/total, "B/event")
			b.ReportMetric(size("events")/total, "B/event-by-hand")
			b.ReportMetric(float64(len(body)), "B/payload")
			for _, t := range []string{"outbox_events", "outbox_positions", "outbox_streams", "eventlog_entries"} {
				b.Logf("%s %.0f", t, size(t)/total)
			}
		})
	}
}
