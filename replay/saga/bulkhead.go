package saga

import (
	"slices"
	"sync"
)

// bulkhead bounds the calls of a step that are under way. Who is refused waits in a
// queue. Whenever there is room for a call, the first in the queue has been woken: who
// enters or leaves sees to that. A nil bulkhead has no bound.
type bulkhead struct {
	mu struct {
		sync.Mutex
		free  int
		queue []*live
	}
}

// enter reports whether l may call; if so it must leave. If not it is queued.
func (b *bulkhead) enter(l *live) (may bool) {
	if b == nil {
		return true
	}
	b.mu.Lock()
	q := b.mu.queue
	if may = b.mu.free > 0 && (len(q) == 0 || q[0] == l); may {
		b.mu.free--
		b.mu.queue = q[min(1, len(q)):]
	} else if !slices.Contains(q, l) {
		b.mu.queue = append(q, l)
	}
	b.wakeNext()
	return may
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
	b.wakeNext()
}

// wakeNext wakes the first in the queue if there is room for its call, and unlocks.
func (b *bulkhead) wakeNext() {
	var next *live
	if b.mu.free > 0 && len(b.mu.queue) > 0 {
		next = b.mu.queue[0]
	}
	b.mu.Unlock()
	if next != nil {
		next.wake()
	}
}
