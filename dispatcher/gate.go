package dispatcher

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// gate bounds what is pending by count and, optionally, by bytes. A message
// that is pending has a slot.
//
// Slots come back in batches of an eighth of all, at most 32: a submitter that
// waits is woken once for many messages, not for each. Nothing starts later
// for it, since seven eighths of the messages are still before that of the
// submitter; when workers run out of work they give back what there is. With
// a bound by bytes, where few messages may be all there is, slots come back
// one by one.
type gate struct {
	maxCount, maxBytes int64 // maxBytes is 0 for no bound
	batch              int64

	mu struct {
		sync.Mutex
		taken slots
	}

	// Who has to wait goes through the turnstile one by one, and out of it
	// when its message is accepted; the one within waits for freed. While
	// anybody waits nobody else gets a slot, so that all get them in order.
	waiting   atomic.Int32
	turnstile *semaphore.Weighted
	freed     chan struct{}
	closed    context.Context // ends when nobody may enter any more
}

// slots is a number of slots and the sum of the sizes of their messages.
type slots struct{ count, bytes int64 }

func newGate(closed context.Context, maxCount int, maxBytes int64) *gate {
	batch := min(int64(maxCount)/8, 32)
	if maxBytes > 0 {
		batch = 1
	}
	return &gate{
		maxCount: int64(maxCount), maxBytes: maxBytes, batch: batch,
		turnstile: semaphore.NewWeighted(1), freed: make(chan struct{}, 1), closed: closed,
	}
}

// tryEnter takes a slot for a message of the given size, if there is one and
// nobody waits for one.
func (g *gate) tryEnter(size int64) bool { return g.waiting.Load() == 0 && g.take(size) }

func (g *gate) take(size int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := &g.mu.taken
	if t.count >= g.maxCount || g.maxBytes > 0 && t.bytes+size > g.maxBytes {
		return false
	}
	t.count++
	t.bytes += size
	return true
}

// enter waits for a slot, in order of arrival. If it gets one, leaveTurnstile
// must be called once the message is accepted. It gives up when ctx ends, or
// when the gate is closed, with the cause of that. It calls flush to get the
// slots that are held back for their way.
func (g *gate) enter(ctx context.Context, size int64, flush func()) error {
	g.waiting.Add(1)
	if err := g.passTurnstile(ctx); err != nil {
		g.waiting.Add(-1)
		return err
	}
	flush()
	for !g.take(size) {
		select {
		case <-g.freed:
		case <-ctx.Done():
			g.leaveTurnstile()
			return context.Cause(ctx)
		case <-g.closed.Done():
			g.leaveTurnstile()
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

func (g *gate) leaveTurnstile() {
	g.turnstile.Release(1)
	g.waiting.Add(-1)
}

// leave gives slots back and empties s.
func (g *gate) leave(s *slots) {
	g.mu.Lock()
	g.mu.taken.count -= s.count
	g.mu.taken.bytes -= s.bytes
	g.mu.Unlock()
	*s = slots{}
	if g.waiting.Load() > 0 {
		select {
		case g.freed <- struct{}{}:
		default:
		}
	}
}
