package eventlog

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/bench/internal/measure"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/eventlog"
)

// What is measured must work; how fast it is depends on the machine.
func TestBoth(t *testing.T) {
	for _, d := range databases {
		b := d.bed(t)
		for _, a := range appenders {
			require.NoError(t, a.add(b, t.Context(), 50, 3))
		}
		s := b.subscribe(t, false)
		require.NoError(t, s.CatchUp(t.Context()))
		require.NoError(t, s.Close())
		var log, hand, effects int
		require.NoError(t, b.store.DB().QueryRow(`SELECT (SELECT count(*) FROM eventlog_entries), (SELECT count(*) FROM events), (SELECT count(*) FROM effects)`).
			Scan(&log, &hand, &effects))
		require.Equal(t, []int{150, 150, 150}, []int{log, hand, effects}, d.name)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, d := range databases {
		for _, some := range []int{1, 16} {
			b.Run(fmt.Sprintf("db=%s/events=%d", d.name, some), func(b *testing.B) {
				race := measure.Race{Rate: "events/s", Each: some}
				for _, a := range appenders {
					race.Run(b, a.name, func(b *testing.B) {
						bed := d.bed(b)
						b.ResetTimer()
						require.NoError(b, a.add(bed, b.Context(), b.N, some))
						b.StopTimer()
					})
				}
			})
		}
	}
}

// BenchmarkCatchUp has a subscription that is behind by as many entries as there are
// iterations, with a transaction for each or with chains of them in one.
func BenchmarkCatchUp(b *testing.B) {
	for _, d := range databases {
		b.Run("db="+d.name, func(b *testing.B) {
			race := measure.Race{Rate: "entries/s"}
			for _, together := range []bool{false, true} {
				race.Run(b, map[bool]string{false: "each", true: "together"}[together], func(b *testing.B) {
					bed := d.bed(b)
					require.NoError(b, bed.appendByLog(b.Context(), (b.N+15)/16, 16))
					b.ResetTimer()
					s := bed.subscribe(b, together)
					require.NoError(b, s.CatchUp(b.Context()))
					b.StopTimer()
					require.NoError(b, s.Close())
				})
			}
		})
	}
}

// BenchmarkWindow is from the commit of an append to the commit of what a subscription
// makes of it.
func BenchmarkWindow(b *testing.B) {
	for _, d := range databases {
		b.Run("db="+d.name, func(b *testing.B) {
			bed := d.bed(b)
			s := bed.subscribe(b, false)
			windows := make([]time.Duration, b.N)
			for i := range b.N {
				var at ordering.Position
				require.NoError(b, bed.store.Write(b.Context(), func(ctx context.Context, tx *sql.Tx) error {
					a, err := bed.log.Append(ctx, tx, placed(lockkeys.Must("order", fmt.Sprint(i)), 1))
					if err == nil {
						at = a.Entries[0].At
					}
					return err
				}))
				committed := time.Now()
				bed.log.Notify()
				require.NoError(b, s.Wait(b.Context(), at))
				windows[i] = time.Since(committed)
			}
			require.NoError(b, s.Close())
			b.ReportMetric(0, "ns/op") // it has the append too
			b.ReportMetric(measure.Percentile(windows, 0.5), "ms-p50")
			b.ReportMetric(measure.Percentile(windows, 0.99), "ms-p99")
		})
	}
}

// BenchmarkLoad loads the state of a stream of so many events, with snapshots and without.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint("events=", n), func(b *testing.B) {
			var race measure.Race
			for _, snapshots := range []struct {
				name  string
				every int
			}{{"all", 1 << 30}, {"snapshots", 100}} {
				race.Run(b, snapshots.name, func(b *testing.B) {
					bed := onSQLite.bed(b)
					stream := lockkeys.Must("order", "1")
					a := eventlog.Aggregate[int]{Log: bed.log, Name: "count", Every: snapshots.every,
						Apply: func(n int, _ *ordering.Event) (int, error) { return n + 1, nil }}
					state := eventlog.State[int]{Version: ordering.Position{Stream: stream}}
					for i := 0; i < n; i += 50 {
						require.NoError(b, bed.store.Write(b.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
							state, err = a.Append(ctx, tx, state, placed(stream, 50)...)
							return err
						}))
					}
					b.ResetTimer()
					for range b.N {
						loaded, err := a.Load(b.Context(), stream)
						require.NoError(b, err)
						require.Equal(b, n, loaded.Value)
					}
					b.StopTimer()
				})
			}
		})
	}
}

// BenchmarkSize is the bytes on disk of an event, with all indexes.
func BenchmarkSize(b *testing.B) {
	for _, d := range databases {
		b.Run("db="+d.name, func(b *testing.B) {
			bed := d.bed(b)
			size := func(tables ...string) (bytes float64) {
				query := `SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_schema WHERE tbl_name = $1)`
				if d.dialect == eventlog.PostgreSQL {
					query = `SELECT pg_total_relation_size($1::regclass)`
				}
				for _, table := range tables {
					var n float64
					require.NoError(b, bed.store.DB().QueryRow(query, table).Scan(&n))
					bytes += n
				}
				return bytes
			}
			appends := (b.N + 15) / 16
			for _, a := range appenders {
				require.NoError(b, a.add(bed, b.Context(), appends, 16))
			}
			total := float64(appends * 16)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(size("outbox_events", "outbox_positions", "outbox_streams", "outbox_types", "eventlog_entries")/total, "B/event")
			b.ReportMetric(size("events")/total, "B/event-by-hand")
			b.ReportMetric(float64(len(body)), "B/payload")
		})
	}
}
