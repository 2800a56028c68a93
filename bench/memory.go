package bench

import (
	"context"
	"runtime"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// Memory is the heap in use, in MB, before and after messages of which each
// had a key of its own.
type Memory struct {
	Messages      int
	Before, After float64
	Peak          float64 // the highest seen on the way
}

// MeasureMemory sends n messages with n different keys of four segments.
func MeasureMemory(n int) Memory {
	d, err := dispatcher.New(dispatcher.Config[int]{
		Keys: func(m int, claim *lockkeys.Claim) error {
			claim.Exclusive(lockkeys.Must(Segments(m, 4)...))
			return nil
		},
		Handler:    func(context.Context, int) error { return nil },
		MaxPending: QueueBound,
	})
	if err != nil {
		panic(err)
	}
	m := Memory{Messages: n, Before: heapInUse()}
	for i := range n {
		if err := d.Submit(context.Background(), i); err != nil {
			panic(err)
		}
		if i%(1<<19) == 0 {
			m.Peak = max(m.Peak, heapInUse())
		}
	}
	if err := d.Drain(context.Background()); err != nil {
		panic(err)
	}
	m.After = heapInUse()
	if err := d.Close(); err != nil {
		panic(err)
	}
	return m
}

// heapInUse returns what is reachable, in MB. What a sync.Pool keeps is let go
// by the second collection.
func heapInUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}
