package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/bench/internal/measure"
	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// dispatchCase is a case of BenchmarkDispatch: the base, or what differs from it.
type dispatchCase struct {
	workload
	keys, workers int
	spins         int // what a handler computes; 5,000 take about 10 µs
}

func dispatchCases() []dispatchCase {
	base := dispatchCase{workload: uniform, keys: 1000, workers: 8}
	cases := []dispatchCase{base}
	vary := func(set func(c *dispatchCase)) {
		c := base
		set(&c)
		cases = append(cases, c)
	}
	for _, w := range workloads[1:] {
		vary(func(c *dispatchCase) { c.workload = w })
	}
	for _, n := range []int{10, 1_000_000} {
		vary(func(c *dispatchCase) { c.keys = n })
	}
	for _, n := range []int{1, 128} {
		vary(func(c *dispatchCase) { c.workers = n })
	}
	vary(func(c *dispatchCase) { c.spins = 5000 })
	return cases
}

// BenchmarkDispatch is the cost of a message.
func BenchmarkDispatch(b *testing.B) {
	for _, c := range dispatchCases() {
		name := fmt.Sprintf("workload=%s/keys=%d/workers=%d/spins=%d", c.name, c.keys, c.workers, c.spins)
		b.Run(name, func(b *testing.B) {
			msgs := c.stream(max(1<<14, min(c.keys, 1<<18)), c.keys) // given again when used up
			var race measure.Race
			for _, contender := range contenders {
				race.Run(b, contender.name, func(b *testing.B) {
					var done sync.WaitGroup
					submit, stop := contender.start(c.workers, func(m *message) {
						m.spun = spin(m.n, c.spins)
						done.Done()
					})
					defer stop()
					pass(submit, msgs, &done) // warms up
					runtime.GC()
					b.ResetTimer()
					done.Add(b.N)
					for i := range b.N {
						submit(msgs[i%len(msgs)])
					}
					done.Wait()
					b.StopTimer()
				})
			}
		})
	}
}

// spin keeps a processor busy.
func spin(x, rounds int) int {
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// BenchmarkMakespan is the quality of schedules, with handlers of 1 ms.
func BenchmarkMakespan(b *testing.B) {
	compared := slices.DeleteFunc(slices.Clone(contenders), func(c contender) bool {
		return !slices.Contains([]string{"interlock", "interlock-head-only", "sharded", "keyed-mutex", "workqueue-by-key"}, c.name)
	})
	for _, w := range workloads {
		for _, workers := range []int{8, 32} {
			msgs := w.stream(2000, 1000)
			for _, contender := range compared {
				b.Run(fmt.Sprintf("workload=%s/workers=%d/by=%s", w.name, workers, contender.name), func(b *testing.B) {
					var sum float64
					for range b.N {
						_, ratio := makespan(contender, workers, 1, msgs)
						sum += ratio
					}
					b.ReportMetric(sum/float64(b.N), "×least")
				})
			}
		}
	}
}

// BenchmarkMemory submits as many messages as there are iterations, each with a key of
// its own.
func BenchmarkMemory(b *testing.B) {
	left, peak := memory(b.N)
	b.ReportMetric(left, "MB-left")
	b.ReportMetric(peak, "MB-peak")
}

// memory returns how many MB of heap are in use after n messages with different keys, and
// at most on the way, beside those before.
func memory(n int) (left, peak float64) {
	before := measure.Heap()
	d, err := dispatcher.New(dispatcher.Config[int]{
		Keys: func(m int, claim *lockkeys.Claim) error {
			claim.Exclusive(lockkeys.Must(segments(m)...))
			return nil
		},
		Handler:    func(context.Context, int) error { return nil },
		MaxPending: bound,
	})
	must(err)
	for i := range n {
		must(d.Submit(context.Background(), i))
		if i%(1<<19) == 0 {
			peak = max(peak, measure.Heap()-before)
		}
	}
	must(d.Drain(context.Background()))
	left = measure.Heap() - before
	must(d.Close())
	return left, peak
}
