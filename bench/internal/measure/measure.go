// Package measure has what the benchmarks have in common.
package measure

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

// Race compares contenders: each has a benchmark of its own, and is also reported in
// times of the first one. Make a new one for each comparison.
type Race struct {
	// Rate is the unit of what is done per second, "events/s" for example. If it is set,
	// it is reported too, and the ratio is how many times as fast the contender is.
	// Otherwise the ratio is how many times as long it takes.
	Rate string
	// Each is how many of these an operation does. Default: 1.
	Each int

	first string
	speed float64 // of the first, in operations per second
}

// Run measures a contender. What it does with the timer is its own affair.
func (r *Race) Run(b *testing.B, name string, contender func(b *testing.B)) {
	b.Run("by="+name, func(b *testing.B) {
		b.ReportAllocs()
		contender(b)
		speed := float64(b.N) / b.Elapsed().Seconds()
		if r.Rate != "" {
			b.ReportMetric(speed*float64(max(r.Each, 1)), r.Rate)
		}
		ratio := r.ratio(name, speed)
		b.ReportMetric(ratio, "×"+r.first)
	})
}

// ratio compares a contender's speed with that of the first one, which may be measured
// again, with a larger number of operations.
func (r *Race) ratio(name string, speed float64) float64 {
	if r.first == "" || r.first == name {
		r.first, r.speed = name, speed
	}
	if r.Rate != "" {
		return speed / r.speed
	}
	return r.speed / speed
}

// Heap returns the memory that is reachable, in MB. What a sync.Pool keeps is let go by
// the second collection.
func Heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

// Percentile returns the part-th of times, 0.5 for the median, in milliseconds. It sorts
// them.
func Percentile(times []time.Duration, part float64) float64 {
	slices.Sort(times)
	return float64(times[min(len(times)-1, int(part*float64(len(times))))].Microseconds()) / 1000
}
