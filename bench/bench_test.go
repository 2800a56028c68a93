package bench

import (
	"fmt"
	"testing"
)

// Every case with every contender, for benchstat.
func BenchmarkDispatch(b *testing.B) {
	for _, c := range Cases() {
		for _, contender := range Contenders {
			b.Run(fmt.Sprintf("%v/contender=%s", c, contender.Name), func(b *testing.B) {
				benchmarkCase(b, c, contender)
			})
		}
	}
}

// Handlers of 1 ms for every workload, with the makespan.
func BenchmarkMakespan(b *testing.B) {
	for _, workers := range []int{8, 32} {
		for _, c := range MakespanCases(Sleep1ms, workers, 10, 1000) {
			for _, contender := range []Contender{LookAhead, HeadOnly, Sharded, KeyedMutex, WorkqueueByKey} {
				b.Run(fmt.Sprintf("%v/contender=%s", c, contender.Name), func(b *testing.B) {
					benchmarkCase(b, c, contender)
				})
			}
		}
	}
}

func benchmarkCase(b *testing.B, c Case, contender Contender) {
	b.ReportAllocs()
	if c.Timed() {
		m := MeasureMakespan(c, contender, b.N)
		b.ReportMetric(float64(m.Elapsed)/float64(b.N), "ns/op")
		b.ReportMetric(m.Ratio(), "makespan")
		return
	}
	rig := NewRig(contender, c.Setup, c.Work, c.Make(streamLen))
	defer rig.Close()
	b.ResetTimer()
	rig.Run(b.N)
	b.StopTimer()
}

// Look-ahead windows, with room for all that they can look past.
func BenchmarkWindow(b *testing.B) {
	for _, workload := range []string{"uniform", "zipf-1.1", "hot-20"} {
		for _, window := range Windows {
			c := NewCase().With(workload)
			c.Window, c.Bound = window, 1<<17
			b.Run(fmt.Sprintf("%v/contender=%s", c, LookAhead.Name), func(b *testing.B) {
				benchmarkCase(b, c, LookAhead)
			})
		}
	}
}

// Admitting and releasing a claim, without a dispatcher.
func BenchmarkAdmission(b *testing.B) {
	for _, a := range []Admission{{}, {Held: 1000}, {Held: 10_000}, {Waiting: 1000}, {Waiting: 10_000}} {
		b.Run(fmt.Sprintf("held=%d/waiting=%d", a.Held, a.Waiting), func(b *testing.B) {
			l := NewLatch(a.Held, a.Waiting)
			b.ReportAllocs()
			b.ResetTimer()
			l.Cycle(b.N)
		})
	}
}

// As many messages as there are iterations, each with a key of its own.
func BenchmarkMemory(b *testing.B) {
	m := MeasureMemory(b.N)
	b.ReportMetric(m.After-m.Before, "MB-left")
	b.ReportMetric(m.Peak, "MB-peak")
}
