package durable

import (
	"context"
	"log/slog"
	"runtime"
	"strconv"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Idle is the heap in use, in MB, before and after streams that were heard of
// once.
type Idle struct {
	Streams, MaxActive int
	Before, After      float64
	InMemory           int // streams in memory in the end
}

// MeasureIdle gives a sequencer one event of each of many streams.
func MeasureIdle(streams, maxActive int) (Idle, error) {
	ctx := context.Background()
	m := Idle{Streams: streams, MaxActive: maxActive, Before: heapInUse()}
	seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
		Store: nullStore{}, Handler: func(context.Context, ordering.Job[*ordering.Event]) error { return nil },
		MaxActive: maxActive, Logger: slog.New(slog.DiscardHandler),
		Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{Workers: workers, MaxPending: queued},
	})
	if err != nil {
		return m, err
	}
	defer seq.Close()
	for i := range streams {
		stream, err := lockkeys.New("client", strconv.Itoa(i/4), "account", strconv.Itoa(i))
		if err != nil {
			return m, err
		}
		e := &ordering.Event{ID: strconv.Itoa(i), Positions: []ordering.Position{{Stream: stream, Number: 1}}}
		if err := seq.Offer(ctx, e, nil); err != nil {
			return m, err
		}
	}
	if err := seq.Drain(ctx); err != nil {
		return m, err
	}
	m.After = heapInUse()
	m.InMemory = seq.Stats().Streams
	return m, nil
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
