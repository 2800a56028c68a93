package orders

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/bench/internal/measure"
	"github.com/interlock-go/interlock/examples/orders/parts"
	"github.com/interlock-go/interlock/internal/rabbittest"
)

// run has users place n orders, each the next one when the last is completed.
func (b *bed) run(t testing.TB, users, n int) (took []time.Duration, failed int) {
	return run(t, users, n, func(i int) error { return b.order(t.Context(), fmt.Sprintf("%08d", i), placement(i)) })
}

// run has users do something n times in all, each the next one when the last is done. It
// returns how long each took, and the number of those that failed.
func run(t testing.TB, users, n int, do func(i int) error) (took []time.Duration, failed int) {
	var next atomic.Int64
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs error
	for range users {
		all.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				start := time.Now()
				err := do(i)
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
	return took, failed
}

// What is measured must work; how fast it is depends on the machine.
func TestContenders(t *testing.T) {
	for _, db := range databases {
		for _, c := range contenders {
			t.Run(db.name+"/"+c.name, func(t *testing.T) {
				const n = 16
				b := open(t, c.name, db.new(t), "local", "")
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
				b.end(t)
				own, all, event := b.bytes(t)
				require.Positive(t, own)
				require.Greater(t, all, own)
				require.Equal(t, c.name == "saga+log", event > 0)
			})
		}
	}
}

// BenchmarkContenders has 100 users place orders in the same shop made in different ways,
// whose services are called in the process. With -v it says how many bytes of an order are
// in each table.
func BenchmarkContenders(b *testing.B) {
	for _, db := range databases {
		for _, c := range contenders {
			b.Run("db="+db.name+"/by="+c.name, func(b *testing.B) { placed(b, c.name, db.new(b), "local", "", 100) })
		}
	}
}

// BenchmarkTransports has more and more users place orders in the shop as it is, whose
// services are called in different ways.
func BenchmarkTransports(b *testing.B) {
	everyTransport(b, func(b *testing.B, transport, broker string, users int) {
		placed(b, "saga+log", "", transport, broker, users)
	})
}

// BenchmarkCalls has them ask the payment service for a status, which costs little but the
// transport.
func BenchmarkCalls(b *testing.B) {
	everyTransport(b, func(b *testing.B, transport, broker string, users int) {
		bed := open(b, "transaction", "", transport, broker)
		defer bed.end(b)
		ask := func(int) error {
			return bed.services.Callers.Payment.Call(b.Context(), "status", "1/status/do", parts.PaymentRequest{Order: "1"}, &parts.PaymentAnswer{})
		}
		require.Eventually(b, func() bool { return ask(0) == nil }, time.Minute, time.Millisecond, "the queue is declared by the service")
		report(b, "calls/s", func() ([]time.Duration, int) { return run(b, users, b.N, ask) })
	})
}

func everyTransport(b *testing.B, each func(b *testing.B, transport, broker string, users int)) {
	node := rabbittest.Start(b)
	for _, transport := range []string{"http", "grpc", "amqp"} {
		broker := ""
		if transport == "amqp" {
			broker = node.URL()
		}
		for _, users := range []int{100, 250, 500} {
			b.Run(fmt.Sprintf("users=%d/by=%s", users, transport), func(b *testing.B) { each(b, transport, broker, users) })
		}
	}
}

// placed has users place b.N orders.
func placed(b *testing.B, name, database, transport, broker string, users int) {
	bed := open(b, name, database, transport, broker)
	report(b, "orders/s", func() ([]time.Duration, int) {
		took, failed := bed.run(b, users, b.N)
		require.NoError(b, bed.drain(b.Context()))
		return took, failed
	})
	bed.end(b)
	own, all, event := bed.bytes(b)
	b.ReportMetric(own/float64(b.N), "B/order")
	b.ReportMetric(all/float64(b.N), "B/order-all")
	if event > 0 {
		b.ReportMetric(event, "B/event")
	}
	if testing.Verbose() && b.N > 1 {
		for _, t := range bed.tables(b) {
			if t.rows >= int64(b.N) {
				b.Logf("%-20s %6d B/order, %5.1f rows", t.name, t.bytes/int64(b.N), float64(t.rows)/float64(b.N))
			}
		}
	}
}

// report measures what is done b.N times.
func report(b *testing.B, rate string, do func() (took []time.Duration, failed int)) {
	b.ReportAllocs()
	busy := processor(b)
	b.ResetTimer()
	took, failed := do()
	b.StopTimer()
	busy = processor(b) - busy
	n := float64(b.N)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(n/b.Elapsed().Seconds(), rate)
	b.ReportMetric(measure.Percentile(took, 0.5), "ms-p50")
	b.ReportMetric(measure.Percentile(took, 0.95), "ms-p95")
	b.ReportMetric(measure.Percentile(took, 0.99), "ms-p99")
	b.ReportMetric(float64(busy.Microseconds())/1000/n, "cpu-ms")
	b.ReportMetric(100*float64(failed)/n, "%failed")
}

// processor returns the time that this process has been busy, on all cores: beside other
// programs it says more than what a clock shows.
func processor(t testing.TB) time.Duration {
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
