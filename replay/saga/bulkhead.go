package saga

import (
	"slices"
	"sync"
)

// bulkhead bounds the calls of a step that are under way. Who is refused waits in a
// queue, and is woken when it is its turn.
type bulkhead struct {
	mu struct {
		sync.Mutex
		free  int
		queue []*live
	}
}

// enter reports whether l may call; if so it must leave. If not it is queued.
func (b *bulkhead) enter(l *live) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.mu.queue
	if b.mu.free > 0 && (len(q) == 0 || q[0] == l) {
		b.mu.free--
		b.mu.queue = q[min(1, len(q)):]
		return true
	}
	if !slices.Contains(q, l) {
		b.mu.queue = append(q, l)
	}
	return false
}

// leave ends the call of l, or its wait for one.
func (b *bulkhead) leave(l *live, called bool) {
	if b == nil {
		return
	}
	b.mu.Lock()
	if called {
		b.mu.free++
	} else {
		b.mu.queue = slices.DeleteFunc(b.mu.queue, func(q *live) bool { return q == l })
	}
	var next *live
	if b.mu.free > 0 && len(b.mu.queue) > 0 {
		next = b.mu.queue[0]
	}
	b.mu.Unlock()
	if next != nil {
		next.wake()
	}
}
