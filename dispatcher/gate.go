package dispatcher

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// gate bounds what is pending by count and, optionally, by bytes.
type gate struct {
	count    *semaphore.Weighted
	bytes    *semaphore.Weighted // nil without a bound
	maxBytes int64
	closed   context.Context // ends when nobody may enter any more
}

func newGate(closed context.Context, count int, bytes int64) *gate {
	g := &gate{count: semaphore.NewWeighted(int64(count)), maxBytes: bytes, closed: closed}
	if bytes > 0 {
		g.bytes = semaphore.NewWeighted(bytes)
	}
	return g
}

// tryEnter takes a slot for a message of the given size, if there is one.
func (g *gate) tryEnter(size int64) bool {
	if !g.count.TryAcquire(1) {
		return false
	}
	if g.bytes != nil && !g.bytes.TryAcquire(size) {
		g.count.Release(1)
		return false
	}
	return true
}

// enter waits for a slot, in order of arrival. It gives up when ctx ends,
// with its error, and when the gate is closed, with the cause of that.
func (g *gate) enter(ctx context.Context, size int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.closed, func() { cancel(context.Cause(g.closed)) })()
	if err := g.count.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	if g.bytes != nil {
		if err := g.bytes.Acquire(ctx, size); err != nil {
			g.count.Release(1)
			return context.Cause(ctx)
		}
	}
	return nil
}

// leave gives a slot back.
func (g *gate) leave(size int64) {
	g.count.Release(1)
	if g.bytes != nil {
		g.bytes.Release(size)
	}
}
