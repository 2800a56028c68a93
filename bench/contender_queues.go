package bench

import (
	"context"
	"slices"
	"sync"
)

// keyedQueues is what one writes by hand for order by key without shards: one
// mutex, a map with a queue of messages for each key in use, and workers that
// read a channel of those that are first in all their queues.
type keyedQueues struct {
	ready   chan *entry
	slots   chan struct{}
	workers sync.WaitGroup

	mu    sync.Mutex
	byKey map[string][]*entry // those with the key that have not ended, in the order of arrival
	free  []*entry
	spare [][]*entry // queues that are not in use
}

// entry is a message in the queues of its keys.
type entry struct {
	m       *Msg
	missing int // queues in which it is not the first
}

func startKeyedQueues(s Setup, h Handler) runner {
	r := &keyedQueues{
		ready: make(chan *entry, s.Bound+s.Workers), slots: make(chan struct{}, s.Bound+s.Workers),
		byKey: make(map[string][]*entry),
	}
	for range s.Workers {
		r.workers.Go(func() {
			for e := range r.ready {
				_ = h(context.Background(), e.m)
				r.end(e)
			}
		})
	}
	return r
}

func (r *keyedQueues) Submit(m *Msg) {
	r.slots <- struct{}{}
	r.mu.Lock()
	e := r.newLocked(m)
	for _, path := range m.Paths {
		q, inUse := r.byKey[path]
		if n := len(r.spare); !inUse && n > 0 {
			q, r.spare = r.spare[n-1], r.spare[:n-1]
		}
		if len(q) > 0 {
			e.missing++
		}
		r.byKey[path] = append(q, e)
	}
	start := e.missing == 0
	r.mu.Unlock()
	if start {
		r.ready <- e
	}
}

func (r *keyedQueues) newLocked(m *Msg) (e *entry) {
	if n := len(r.free); n > 0 {
		e, r.free = r.free[n-1], r.free[:n-1]
	} else {
		e = new(entry)
	}
	e.m = m
	return e
}

// end removes a message, which is the first in all its queues, and starts those
// that have become that.
func (r *keyedQueues) end(e *entry) {
	r.mu.Lock()
	for _, path := range e.m.Paths {
		q := slices.Delete(r.byKey[path], 0, 1)
		if len(q) == 0 {
			delete(r.byKey, path)
			r.spare = append(r.spare, q)
			continue
		}
		r.byKey[path] = q
		if q[0].missing--; q[0].missing == 0 {
			r.ready <- q[0] // has room for all messages that there may be
		}
	}
	e.m = nil
	r.free = append(r.free, e)
	r.mu.Unlock()
	<-r.slots
}

func (r *keyedQueues) Close() {
	for range cap(r.slots) { // when it has all of them, no message is left
		r.slots <- struct{}{}
	}
	close(r.ready)
	r.workers.Wait()
}
