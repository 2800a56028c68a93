package bench

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

// What one writes by hand for order by key, or for exclusion.

// startSharded has a channel for each worker, chosen by the hash of the message's first
// key. A second key is not looked at, nor is one above or below.
func startSharded(workers int, handle func(*message)) (submit func(*message), stop func()) {
	seed := maphash.MakeSeed()
	queues := make([]chan *message, workers)
	var running sync.WaitGroup
	for i := range queues {
		queues[i] = make(chan *message, max(bound/workers, 1))
		running.Go(func() {
			for m := range queues[i] {
				handle(m)
			}
		})
	}
	submit = func(m *message) {
		queues[maphash.String(seed, m.paths[0])%uint64(workers)] <- m
	}
	return submit, func() {
		for _, q := range queues {
			close(q)
		}
		running.Wait()
	}
}

// startKeyedMutex is the pool with a mutex for each key, locked in sorted order so that
// two messages cannot wait for each other. Which of two messages gets a key first is
// chance.
func startKeyedMutex(workers int, handle func(*message)) (submit func(*message), stop func()) {
	locks := keyLocks{byKey: make(map[string]*keyLock)}
	return startPool(workers, func(m *message) {
		var room [2]*keyLock
		held := locks.lock(m.paths, room[:0])
		handle(m)
		locks.unlock(held)
	})
}

// keyLocks has a mutex for each key in use. They are counted and go when nobody needs
// them, so that memory does not grow with the keys ever seen.
type keyLocks struct {
	mu    sync.Mutex
	byKey map[string]*keyLock
	free  spares[*keyLock]
}

type keyLock struct {
	mu   sync.Mutex
	key  string
	refs int // guarded by keyLocks.mu
}

// lock locks the mutexes of paths and appends them to held.
func (l *keyLocks) lock(paths []string, held []*keyLock) []*keyLock {
	l.mu.Lock()
	for _, path := range paths {
		k := l.byKey[path]
		if k == nil {
			if k = l.free.take(); k == nil {
				k = new(keyLock)
			}
			k.key, l.byKey[path] = path, k
		}
		k.refs++
		held = append(held, k)
	}
	l.mu.Unlock()
	if len(held) > 1 {
		slices.SortFunc(held, func(a, b *keyLock) int { return strings.Compare(a.key, b.key) })
	}
	for _, k := range held {
		k.mu.Lock()
	}
	return held
}

func (l *keyLocks) unlock(held []*keyLock) {
	for _, k := range held {
		k.mu.Unlock()
	}
	l.mu.Lock()
	for _, k := range held {
		if k.refs--; k.refs == 0 {
			delete(l.byKey, k.key)
			l.free.give(k)
		}
	}
	l.mu.Unlock()
}

// keyedQueues has one mutex, a map with a queue of messages for each key in use, and
// workers that read a channel of those that are first in all their queues.
type keyedQueues struct {
	ready chan *entry
	slots chan struct{}

	mu     sync.Mutex
	byKey  map[string][]*entry // those with the key that have not ended, in the order of arrival
	free   spares[*entry]
	queues spares[[]*entry]
}

// entry is a message in the queues of its keys.
type entry struct {
	m       *message
	missing int // queues in which it is not the first
}

func startKeyedQueues(workers int, handle func(*message)) (submit func(*message), stop func()) {
	room := bound + workers
	r := &keyedQueues{ready: make(chan *entry, room), slots: make(chan struct{}, room), byKey: make(map[string][]*entry)}
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for e := range r.ready {
				handle(e.m)
				r.end(e)
			}
		})
	}
	return r.submit, func() {
		for range room { // when it has all of them, no message is left
			r.slots <- struct{}{}
		}
		close(r.ready)
		running.Wait()
	}
}

func (r *keyedQueues) submit(m *message) {
	r.slots <- struct{}{}
	r.mu.Lock()
	e := r.free.take()
	if e == nil {
		e = new(entry)
	}
	e.m = m
	for _, path := range m.paths {
		q, inUse := r.byKey[path]
		if !inUse {
			q = r.queues.take()
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

// end removes a message, which is the first in all its queues, and starts those that have
// become that.
func (r *keyedQueues) end(e *entry) {
	r.mu.Lock()
	for _, path := range e.m.paths {
		q := slices.Delete(r.byKey[path], 0, 1)
		if len(q) == 0 {
			delete(r.byKey, path)
			r.queues.give(q)
			continue
		}
		r.byKey[path] = q
		if q[0].missing--; q[0].missing == 0 {
			r.ready <- q[0] // has room for all messages that there may be
		}
	}
	r.free.give(e)
	r.mu.Unlock()
	<-r.slots
}

// spares are things to use again, so that nothing is allocated for a message.
type spares[T any] []T

// take returns the zero value if there is none.
func (s *spares[T]) take() (one T) {
	if n := len(*s); n > 0 {
		one, *s = (*s)[n-1], (*s)[:n-1]
	}
	return one
}

func (s *spares[T]) give(one T) { *s = append(*s, one) }
