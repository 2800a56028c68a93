package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Handler is how every contender calls the handler.
type Handler func(ctx context.Context, m *Msg) error

// Work is what a handler does.
type Work struct {
	Name string
	do   func(m *Msg) // nil for nothing
	// onCPU tells that it uses a processor all the while, so that no more of
	// it can go on at once than there are processors.
	onCPU bool
}

// What handlers do: nothing, sleep for as long as the name says, or compute.
var (
	Empty     = Work{Name: "empty"}
	Sleep10us = Work{Name: "10us", do: func(*Msg) { time.Sleep(10 * time.Microsecond) }}
	Sleep1ms  = Work{Name: "1ms", do: func(*Msg) { time.Sleep(time.Millisecond) }}
	SleepMix  = Work{Name: "1-9ms", do: func(m *Msg) { time.Sleep(time.Duration(1+m.N*7919%9) * time.Millisecond) }}
	CPU10us   = Work{Name: "cpu-10us", do: func(*Msg) { spun.Store(spin(spinsFor10us())) }, onCPU: true}
)

// Timed tells whether the handler takes time, which is then recorded.
func (w Work) Timed() bool { return w.do != nil }

// handler returns the handler that does w and counts itself off done. Start
// is when the run began.
func (w Work) handler(start *time.Time, done *sync.WaitGroup) Handler {
	if w.do == nil {
		return func(context.Context, *Msg) error {
			done.Done()
			return nil
		}
	}
	return func(_ context.Context, m *Msg) error {
		m.Start = time.Since(*start)
		w.do(m)
		m.End = time.Since(*start)
		done.Done()
		return nil
	}
}

// spun is where results of spin go, so that it is not left out as useless.
var spun atomic.Uint64

// spin keeps a processor busy for n rounds.
func spin(n int) uint64 {
	x := uint64(n) | 1
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// spinsFor10us is measured once: the shortest of some tries, so that the
// neighbours' load does not count.
var spinsFor10us = sync.OnceValue(func() int {
	const n = 100_000
	best := time.Hour
	for range 20 {
		start := time.Now()
		spun.Store(spin(n))
		best = min(best, time.Since(start))
	}
	return int(n * 10 * time.Microsecond / max(best, 1))
})
