package eventlog

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/replay/eventlog"
)

func open(t testing.TB, d eventlog.Dialect) *bed {
	b, err := newBed(t.Context(), d)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.close()) })
	return b
}

// subscribe makes a row of each entry.
func (b *bed) subscribe(t testing.TB, together dispatcher.Together) *eventlog.Subscription {
	s, err := eventlog.Subscribe(t.Context(), b.log, eventlog.SubscriptionConfig{Name: "rows", Store: b.store, Together: together,
		Handler: sqlstore.InTx(b.store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[eventlog.Entry]) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO effects (place, type) VALUES ($1, $2)`, int64(job.Value.At.Place()), job.Value.Event.Type)
			return err
		})})
	require.NoError(t, err)
	return s
}

// What is measured must work; how fast it is depends on the machine.
func TestBoth(t *testing.T) {
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			b := open(t, d)
			require.NoError(t, b.appendByLog(t.Context(), 50, 3))
			require.NoError(t, b.appendByHand(t.Context(), 50, 3))
			s := b.subscribe(t, nil)
			require.NoError(t, s.CatchUp(t.Context()))
			require.NoError(t, s.Close())
			var log, hand, effects int
			require.NoError(t, b.store.DB().QueryRow(`SELECT (SELECT count(*) FROM eventlog_entries), (SELECT count(*) FROM events), (SELECT count(*) FROM effects)`).
				Scan(&log, &hand, &effects))
			require.Equal(t, []int{150, 150, 150}, []int{log, hand, effects})
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	for name, d := range dialects {
		for _, some := range []int{1, 16} {
			for by, add := range map[string]func(*bed, context.Context, int, int) error{"log": (*bed).appendByLog, "hand": (*bed).appendByHand} {
				b.Run(fmt.Sprintf("%s/events=%d/%s", name, some, by), func(b *testing.B) {
					bed := open(b, d)
					b.ReportAllocs()
					b.ResetTimer()
					require.NoError(b, add(bed, b.Context(), b.N, some))
					b.StopTimer()
					b.ReportMetric(float64(b.N*some)/b.Elapsed().Seconds(), "events/s")
				})
			}
		}
	}
}

// A subscription that is behind by many entries.
func BenchmarkCatchUp(b *testing.B) {
	for name, d := range dialects {
		for _, together := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/together=%v", name, together), func(b *testing.B) {
				bed := open(b, d)
				require.NoError(b, bed.appendByLog(b.Context(), (b.N+15)/16, 16))
				var in dispatcher.Together
				if together {
					in = bed.store.Together
				}
				b.ResetTimer()
				s := bed.subscribe(b, in)
				require.NoError(b, s.CatchUp(b.Context()))
				b.StopTimer()
				require.NoError(b, s.Close())
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
			})
		}
	}
}

// From the commit of an append to the commit of what a subscription makes of it.
func BenchmarkWindow(b *testing.B) {
	for name, d := range dialects {
		b.Run(name, func(b *testing.B) {
			bed := open(b, d)
			s := bed.subscribe(b, nil)
			var windows []time.Duration
			for i := range b.N {
				var at ordering.Position
				require.NoError(b, bed.store.Write(b.Context(), func(ctx context.Context, tx *sql.Tx) error {
					a, err := bed.log.Append(ctx, tx, []*ordering.Event{{Type: "order-placed", Payload: []byte(body),
						Positions: []ordering.Position{{Stream: lockkeys.Must("order", fmt.Sprint(i))}}}})
					if err == nil {
						at = a.Entries[0].At
					}
					return err
				}))
				committed := time.Now()
				bed.log.Notify()
				require.NoError(b, s.Wait(b.Context(), at))
				windows = append(windows, time.Since(committed))
			}
			require.NoError(b, s.Close())
			slices.Sort(windows)
			b.ReportMetric(float64(windows[len(windows)/2].Microseconds()), "µs-p50")
			b.ReportMetric(float64(windows[len(windows)*99/100].Microseconds()), "µs-p99")
		})
	}
}

// The state of a stream of so many events, with snapshots and without.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		for _, every := range []int{100, 1 << 30} {
			b.Run(fmt.Sprintf("events=%d/snapshots=%v", n, every == 100), func(b *testing.B) {
				bed := open(b, eventlog.SQLite)
				stream := lockkeys.Must("order", "1")
				a := eventlog.Aggregate[int]{Log: bed.log, Name: "count", Every: every,
					Apply: func(n int, _ *ordering.Event) (int, error) { return n + 1, nil }}
				state := eventlog.State[int]{Version: ordering.Position{Stream: stream}}
				for i := 0; i < n; i += 50 {
					events := make([]*ordering.Event, 50)
					for j := range events {
						events[j] = &ordering.Event{Type: "line-added", Payload: []byte(body), Positions: []ordering.Position{{Stream: stream}}}
					}
					require.NoError(b, bed.store.Write(b.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
						state, err = a.Append(ctx, tx, state, events...)
						return err
					}))
				}
				b.ResetTimer()
				for range b.N {
					loaded, err := a.Load(b.Context(), stream)
					require.NoError(b, err)
					require.Equal(b, n, loaded.Value)
				}
			})
		}
	}
}
