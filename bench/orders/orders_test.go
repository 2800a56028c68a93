package orders

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/rabbittest"
)

// run has users place n orders, each the next one when the last is completed. It returns
// how long each took, sorted, and the number of those that failed.
func (b *bed) run(t testing.TB, users, n int) (took []time.Duration, failed int) {
	var next atomic.Int64
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs error
	for range users {
		all.Go(func() {
			for {
				i := int(next.Add(1))
				if i > n {
					return
				}
				start := time.Now()
				err := b.order(t.Context(), fmt.Sprintf("%08d", i), placement(i))
				mu.Lock()
				if took = append(took, time.Since(start)); err != nil {
					failed, errs = failed+1, errors.Join(errs, err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if errs != nil {
		t.Logf("%.500v", errs)
	}
	slices.Sort(took)
	return took, failed
}

// What is measured must work; how fast it is depends on the machine.
func TestContenders(t *testing.T) {
	const n = 16
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			b, err := open(t.Context(), c.name, "local", "")
			require.NoError(t, err)
			defer func() { require.NoError(t, b.remove()) }()
			took, failed := b.run(t, 4, n)
			require.Len(t, took, n)
			require.Zero(t, failed)
			require.NoError(t, b.drain(t.Context()))
			if c.name != "transaction" {
				counts, err := b.services.Inventory.Counts(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, 3*n, counts.Sold)
				sum, err := b.services.Payment.Sum(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, n*(3990+2*250), sum)
			}
			require.NoError(t, b.end())
			own, all, event, err := b.bytes(t.Context())
			require.NoError(t, err)
			require.Positive(t, own)
			require.Greater(t, all, own)
			require.Equal(t, c.name == "saga+log", event > 0)
		})
	}
}

// BenchmarkContenders has 100 users place orders in the same shop made in different ways,
// whose services are called in the process.
func BenchmarkContenders(b *testing.B) {
	for _, c := range contenders {
		b.Run(c.name, func(b *testing.B) { measure(b, c.name, "local", "", 100) })
	}
}

// BenchmarkTransports has more and more users place orders in the shop as it is, whose
// services are called in different ways.
func BenchmarkTransports(b *testing.B) {
	node := rabbittest.Start(b)
	for _, transport := range []string{"http", "grpc", "amqp"} {
		broker := ""
		if transport == "amqp" {
			broker = node.URL()
		}
		for _, users := range []int{100, 250, 500} {
			b.Run(fmt.Sprintf("%s/users=%d", transport, users), func(b *testing.B) { measure(b, "saga+log", transport, broker, users) })
		}
	}
}

func measure(b *testing.B, name, transport, broker string, users int) {
	bed, err := open(b.Context(), name, transport, broker)
	require.NoError(b, err)
	defer func() { require.NoError(b, bed.remove()) }()
	b.ReportAllocs()
	busy := processor(b)
	b.ResetTimer()
	took, failed := bed.run(b, users, b.N)
	require.NoError(b, bed.drain(b.Context()))
	b.StopTimer()
	busy = processor(b) - busy
	require.NoError(b, bed.end())
	n := float64(b.N)
	own, all, event, err := bed.bytes(b.Context())
	require.NoError(b, err)
	at := func(share float64) float64 {
		return float64(took[min(len(took)-1, int(share*float64(len(took))))].Microseconds()) / 1000
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(n/b.Elapsed().Seconds(), "orders/s")
	b.ReportMetric(at(0.5), "ms-p50")
	b.ReportMetric(at(0.95), "ms-p95")
	b.ReportMetric(at(0.99), "ms-p99")
	b.ReportMetric(float64(busy.Microseconds())/1000/n, "cpu-ms/order")
	b.ReportMetric(100*float64(failed)/n, "%failed")
	b.ReportMetric(own/n, "B/order")
	b.ReportMetric(all/n, "B/order-all")
	if event > 0 {
		b.ReportMetric(event, "B/event")
	}
}

// processor returns the time that this process has been busy, on all cores: beside other
// programs it says more than what a clock shows.
func processor(t testing.TB) time.Duration {
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
