package telemetry

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/telemetry"
	"github.com/interlock-go/interlock/lockkeys"
)

// way is one way to measure a dispatcher.
type way struct {
	name    string
	measure func() func(dispatcher.Measurement)
}

var ways = []way{
	{"off", func() func(dispatcher.Measurement) { return nil }},
	{"hook", func() func(dispatcher.Measurement) {
		var n atomic.Int64
		return func(m dispatcher.Measurement) { n.Add(int64(m.Waited)) }
	}},
	{"metrics", func() func(dispatcher.Measurement) { return telemetry.NewMetrics().Measure("payments") }},
}

// BenchmarkMeasured submits messages with one of a number of keys, to one dispatcher for
// each way in turn, in rounds: so whatever else the machine does concerns all of them.
// It reports the ns for a message, and the ratio to those of the first way: the medians
// of all rounds.
func BenchmarkMeasured(b *testing.B) {
	for _, keys := range []int{1, 10, 1000} {
		b.Run("keys="+strconv.Itoa(keys), func(b *testing.B) {
			all := make([]lockkeys.Key, keys)
			for i := range all {
				all[i] = lockkeys.Must("client", strconv.Itoa(i), "account", "1")
			}
			rigs := make([]*dispatcher.Dispatcher[int], len(ways))
			for i, w := range ways {
				d, err := dispatcher.New(dispatcher.Config[int]{
					Keys:       func(i int, c *lockkeys.Claim) error { c.Exclusive(all[i%keys]); return nil },
					Handler:    func(context.Context, int) error { return nil },
					MaxPending: 1024, Measure: w.measure(),
				})
				require.NoError(b, err)
				defer d.Close()
				rigs[i] = d
			}
			const round = 50_000
			took := make([][]float64, len(ways))
			ratio := make([][]float64, len(ways))
			for n := 0; n < b.N; n += round {
				for i, d := range rigs {
					took[i] = append(took[i], run(b, d, round))
					ratio[i] = append(ratio[i], took[i][len(took[i])-1]/took[0][len(took[0])-1])
				}
			}
			b.ReportMetric(0, "ns/op") // of all ways together, and no message's
			for i, w := range ways {
				b.ReportMetric(median(took[i]), w.name+"-ns")
				b.ReportMetric(median(ratio[i]), w.name+"-ratio")
			}
		})
	}
}

// run submits n messages, waits for them, and returns the ns for each.
func run(b *testing.B, d *dispatcher.Dispatcher[int], n int) float64 {
	begun := time.Now()
	for i := range n {
		if err := d.Submit(context.Background(), i*7919); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, d.Drain(context.Background()))
	return float64(time.Since(begun)) / float64(n)
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
