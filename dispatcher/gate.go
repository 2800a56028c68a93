package dispatcher

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// gate bounds what is pending by count and, optionally, by bytes.
type gate struct {
	maxCount, maxBytes int64 // maxBytes is 0 for no bound
	batch              int64 // how many slots may come back together

	count, bytes atomic.Int64

	// Who has to wait goes through the turnstile one by one; the first waits
	// for freed. Nobody else enters meanwhile, so that it gets its turn.
	turnstile *semaphore.Weighted
	waiting   atomic.Bool
	freed     chan struct{}
	closed    context.Context // ends when nobody may enter any more
}

func newGate(closed context.Context, maxCount int, maxBytes int64) *gate {
	return &gate{
		maxCount: int64(maxCount), maxBytes: maxBytes, batch: min(int64(maxCount)/8, 32),
		turnstile: semaphore.NewWeighted(1), freed: make(chan struct{}, 1), closed: closed,
	}
}

// tryEnter takes a slot for a message of the given size, if there is one and
// nobody waits for one.
func (g *gate) tryEnter(size int64) bool { return !g.waiting.Load() && g.take(size) }

func (g *gate) take(size int64) bool {
	if g.count.Add(1) > g.maxCount {
		g.count.Add(-1)
		return false
	}
	if g.maxBytes > 0 && g.bytes.Add(size) > g.maxBytes {
		g.leave(&leaving{1, size})
		return false
	}
	return true
}

// enter waits for a slot, in order of arrival. It gives up when ctx ends, or
// when the gate is closed, with the cause of that. It calls flush to get the
// slots that are held back for their way.
func (g *gate) enter(ctx context.Context, size int64, flush func()) error {
	if err := g.passTurnstile(ctx); err != nil {
		return err
	}
	defer g.turnstile.Release(1)
	g.waiting.Store(true)
	defer g.waiting.Store(false)
	flush()
	for !g.take(size) {
		select {
		case <-g.freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-g.closed.Done():
			return context.Cause(g.closed)
		}
	}
	return nil
}

func (g *gate) passTurnstile(ctx context.Context) error {
	if g.turnstile.TryAcquire(1) {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.closed, func() { cancel(context.Cause(g.closed)) })()
	if g.turnstile.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// leaving is a number of slots on their way back. They are not given back one
// by one, because submitters and workers share the counters, unless somebody
// waits.
type leaving struct{ count, bytes int64 }

// leave gives slots back and empties l.
func (g *gate) leave(l *leaving) {
	g.count.Add(-l.count)
	if g.maxBytes > 0 {
		g.bytes.Add(-l.bytes)
	}
	*l = leaving{}
	if g.waiting.Load() {
		select {
		case g.freed <- struct{}{}:
		default:
		}
	}
}
