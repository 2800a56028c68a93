package bench

import (
	"runtime"
	"time"

	"github.com/interlock-go/interlock/bench/internal/stat"
)

// Makespan is how long a contender took for messages whose handlers take
// time, beside what it cannot be faster than. The durations of handlers are
// those measured in the same run.
type Makespan struct {
	Elapsed time.Duration
	Work    time.Duration // of all handlers together, divided by the workers
	Chain   time.Duration // the longest chain of conflicting messages
}

// Ratio is 1 for a perfect schedule. It can be less for a contender that does
// not keep conflicting messages apart.
func (m Makespan) Ratio() float64 {
	return float64(m.Elapsed) / float64(max(m.Work, m.Chain))
}

// MeasureMakespan runs n messages of the case through the contender.
func MeasureMakespan(c Case, contender Contender, n int) Makespan {
	msgs := c.Make(n)
	rig := NewRig(contender, c.Setup, c.Work, msgs)
	defer rig.Close()
	runtime.GC()
	m := Makespan{Elapsed: rig.Run(n)}
	var work time.Duration
	for _, msg := range msgs {
		work += msg.End - msg.Start
	}
	workers := c.Workers
	if c.onCPU {
		workers = min(workers, runtime.GOMAXPROCS(0))
	}
	m.Work, m.Chain = work/time.Duration(workers), LongestChain(msgs)
	return m
}

// MedianMakespan returns the ratio in the median run of several, and the
// nanoseconds for a message.
func MedianMakespan(c Case, contender Contender, runs, n int) (ratio, ns float64) {
	var ratios, times []float64
	for range runs {
		m := MeasureMakespan(c, contender, n)
		ratios = append(ratios, m.Ratio())
		times = append(times, float64(m.Elapsed)/float64(n))
	}
	return stat.Median(ratios), stat.Median(times)
}
