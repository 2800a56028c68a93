package bench

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Case is one thing to measure: a stream of messages, what handlers do, and
// what the contenders are started with.
type Case struct {
	Stream
	Setup
	Work
}

// String returns the case in the form of a benchmark's name.
func (c Case) String() string {
	s := fmt.Sprintf("%v/workers=%d/handler=%s", c.Stream, c.Workers, c.Work.Name)
	if c.Window > 0 {
		s += fmt.Sprintf("/window=%d", c.Window)
	}
	return s
}

// NewCase returns the case that the others are variations of.
func NewCase() Case {
	return Case{
		Stream: Stream{Workload: "uniform", Keys: 1000, Depth: 4},
		Setup:  Setup{Workers: 8, Bound: QueueBound},
		Work:   Empty,
	}
}

// With returns the case with another workload.
func (c Case) With(workload string) Case {
	c.Workload = workload
	return c
}

// Rig is a contender at work on messages of a case.
type Rig struct {
	runner
	msgs  []*Msg
	next  int
	start time.Time
	done  sync.WaitGroup
}

// NewRig starts a contender. It will be given msgs in turn, over and over.
func NewRig(c Contender, s Setup, w Work, msgs []*Msg) *Rig {
	r := &Rig{msgs: msgs}
	r.runner = c.start(s, w.handler(&r.start, &r.done))
	return r
}

// Run gives the contender the next n messages and waits until their handlers
// have ended.
func (r *Rig) Run(n int) time.Duration {
	r.done.Add(n)
	r.start = time.Now()
	for range n {
		r.Submit(r.msgs[r.next])
		if r.next++; r.next == len(r.msgs) {
			r.next = 0
		}
	}
	r.done.Wait()
	return time.Since(r.start)
}

// heap counts allocations.
type heap struct{ objects, bytes float64 }

func readHeap() heap {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return heap{float64(m.Mallocs), float64(m.TotalAlloc)}
}
